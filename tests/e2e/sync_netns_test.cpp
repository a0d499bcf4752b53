// A copy between two network namespaces, which are as far apart as two nodes: the cable is pulled and put back.
//
// Needs root and the `ip` program; where it has not, the cases are skipped, and CTest counts them so.
#include <fcntl.h>
#include <sched.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <iostream>

#include "tests/e2e/sync_folders.hpp"

extern char** environ;

using namespace tandem::test;
using namespace std::chrono_literals;

BOOST_AUTO_TEST_SUITE(sync_between_namespaces)

namespace {

constexpr std::size_t mib = std::size_t{1} << 20;

int open_own_namespace() {
  return ::open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC);
}

// A network namespace that only this test knows.
class NetworkNamespace {
 public:
  NetworkNamespace() {
    const int outside = open_own_namespace();
    if (::unshare(CLONE_NEWNET) == 0) descriptor_ = open_own_namespace();
    ::setns(outside, CLONE_NEWNET);
    ::close(outside);
  }
  NetworkNamespace(const NetworkNamespace&) = delete;
  NetworkNamespace& operator=(const NetworkNamespace&) = delete;
  ~NetworkNamespace() {
    if (descriptor_ >= 0) ::close(descriptor_);
  }
  bool exists() const { return descriptor_ >= 0; }
  std::string path() const { return "/proc/" + std::to_string(::getpid()) + "/fd/" + std::to_string(descriptor_); }

  // What `act` starts lives inside.
  template <class Act>
  auto inside(Act act) const {
    const int outside = open_own_namespace();
    ::setns(descriptor_, CLONE_NEWNET);
    auto result = act();
    ::setns(outside, CLONE_NEWNET);
    ::close(outside);
    return result;
  }
  // Runs `ip WORDS` inside.
  bool ip(std::vector<std::string> words) const {
    words.insert(words.begin(), "ip");
    return inside([&] {
      std::vector<char*> argv;
      for (std::string& word : words) argv.push_back(word.data());
      argv.push_back(nullptr);
      pid_t child = -1;
      int status = -1;
      if (::posix_spawnp(&child, "ip", nullptr, nullptr, argv.data(), environ) != 0) return false;
      return ::waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0;
    });
  }

 private:
  int descriptor_ = -1;
};

// Two nodes and a cable.
struct TwoNodes {
  NetworkNamespace head, worker;
  bool is_connected =
      head.exists() && worker.exists() && head.ip({"link", "add", "fab0", "type", "veth", "peer", "name", "fab1"}) &&
      head.ip({"link", "set", "fab1", "netns", worker.path()}) &&
      head.ip({"addr", "add", "10.77.0.1/24", "dev", "fab0"}) && head.ip({"link", "set", "fab0", "up"}) &&
      worker.ip({"addr", "add", "10.77.0.2/24", "dev", "fab1"}) && worker.ip({"link", "set", "fab1", "up"});
};

// The line is what CTest knows a skipped case by.
boost::test_tools::assertion_result can_connect(boost::unit_test::test_unit_id) {
  static const bool can = TwoNodes().is_connected;
  if (!can) std::cout << "skipped: network namespaces need root and the ip program" << std::endl;
  return can;
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_cable_that_is_pulled_and_put_back_costs_time_and_nothing_else,
                     *boost::unit_test::precondition(can_connect)) {
  const TwoNodes nodes;
  BOOST_REQUIRE(nodes.is_connected);
  const SyncFolders folders(16 * mib);
  // Two seconds of silence are enough for a test; a node gives the other one more.
  const auto receiver = nodes.worker.inside([&] {
    return std::make_unique<TandemProcess>(folders.receive("10.77.0.2:0", {"--once", "--timeout", "2"}));
  });
  const std::string address = address_of(*receiver);
  const auto sender = nodes.head.inside([&] {
    return std::make_unique<TandemProcess>(folders.send(address, {"--limit-mb-s", "6", "--timeout", "2"}));
  });
  BOOST_REQUIRE_MESSAGE(wait_for_bytes(*sender, 4 * mib), sender->output());
  BOOST_REQUIRE(nodes.head.ip({"link", "set", "fab0", "down"}));
  BOOST_TEST(sender->wait_for_line("trying again").has_value(), sender->output());
  BOOST_TEST(folders.has_only_whole_files());
  BOOST_TEST(!folders.is_equal());
  BOOST_REQUIRE(nodes.head.ip({"link", "set", "fab0", "up"}));
  BOOST_TEST(sender->wait_for_exit(90s).value_or(-1) == 0, sender->output());
  BOOST_TEST(receiver->wait_for_exit(20s).value_or(-1) == 0, receiver->output());
  BOOST_TEST(folders.is_equal());
  // At most what was on the way when the cable was pulled went twice.
  BOOST_TEST(number_in(sender->output(), "bytes_sent") < static_cast<std::int64_t>(folders.bytes() + 4 * mib));
}

BOOST_AUTO_TEST_CASE(a_receiver_is_not_there_for_other_interfaces, *boost::unit_test::precondition(can_connect)) {
  const TwoNodes nodes;
  BOOST_REQUIRE(nodes.is_connected);
  BOOST_REQUIRE(nodes.worker.ip({"addr", "add", "10.78.0.2/24", "dev", "fab1"}));
  BOOST_REQUIRE(nodes.head.ip({"addr", "add", "10.78.0.1/24", "dev", "fab0"}));
  const SyncFolders folders(mib);
  const auto receiver =
      nodes.worker.inside([&] { return std::make_unique<TandemProcess>(folders.receive("10.77.0.2:0")); });
  const std::string address = address_of(*receiver);
  const std::string office = "10.78.0.2" + address.substr(address.rfind(':'));
  const auto stranger = nodes.head.inside([&] {
    return std::make_unique<TandemProcess>(
        std::vector<std::string>{"sync", "--backend", "copy", "--model", folders.source().string(), "--token-file",
                                 folders.token(), "--to", office, "--patience", "1", "--state-dir", folders.state()});
  });
  BOOST_TEST(stranger->wait_for_exit(60s).value_or(-1) == 1, stranger->output());
  BOOST_TEST(stranger->output().find("refused") != std::string::npos, stranger->output());
  const auto sender = nodes.head.inside([&] { return std::make_unique<TandemProcess>(folders.send(address)); });
  BOOST_TEST(sender->wait_for_exit(60s).value_or(-1) == 0, sender->output());
}

BOOST_AUTO_TEST_SUITE_END()
