// Exchanges on the device: the contract of all_gather, in stream order and inside graphs; two ranks, as threads and as
// processes, where there are two devices; and what ends an exchange whose peer does not come.
#include <boost/test/unit_test.hpp>

#include "gpu/comm/communicator.hpp"
#include "tests/cuda/device_fixture.hpp"

#if defined(TANDEM_HAVE_NCCL)
#include <cuda_runtime_api.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>

#include "gpu/comm/device_group.hpp"
#include "gpu/comm/nccl_environment.hpp"
#include "gpu/comm/nccl_library.hpp"
#include "tests/gpu/comm_ranks.hpp"

using namespace tandem;
using namespace tandem::gpu;
using namespace tandem::gpu::test;
using namespace std::chrono_literals;

BOOST_AUTO_TEST_SUITE(nccl)

namespace {

constexpr std::int64_t columns_max = 70'001;  // more than one piece of a buffer
constexpr const char* port_variable = "TANDEM_TEST_NCCL_PORT";
constexpr const char* rounds_variable = "TANDEM_TEST_NCCL_ROUNDS";

// As a deployment does, before the library's first call.
void prepare_environment() {
  for (const NcclVariable& variable : nccl_environment({}).value())
    ::setenv(variable.name.c_str(), variable.value.c_str(), 0);
}

int device_count() {
  prepare_environment();
  int count = 0;
  return cudaGetDeviceCount(&count) == cudaSuccess ? count : 0;
}

std::unique_ptr<Communicator> reaching_devices(std::unique_ptr<Communicator> control, int device,
                                               std::chrono::milliseconds timeout = 20s) {
  prepare_environment();
  if (control == nullptr) return nullptr;
  NcclOptions options;
  options.device = device;
  options.connect_timeout = 30s;
  options.timeout = timeout;
  auto made = make_nccl_communicator(nccl_library(), control, options);
  if (!made) std::fprintf(stderr, "%s\n", made.error().message().c_str());
  return made ? std::move(*made) : nullptr;
}

float value_of(int rank, int round, std::int64_t i) {
  return static_cast<float>(1000 * rank + 10 * round) + static_cast<float>(i % 512) / 1024;
}

// One rank's tensors on its own device. The group ends last: it may wait for the graphs of the operations.
struct Rank {
  std::unique_ptr<Communicator> group;
  std::unique_ptr<Ops> ops;
  Buffer memory;

  explicit Rank(std::unique_ptr<Communicator> connected, int device) : group(std::move(connected)) {
    CudaOptions options;
    options.device = device;
    if (auto made = make_cuda_ops(options)) ops = std::move(*made);
    if (is_ready())
      memory = ops->memory().allocate(static_cast<std::size_t>((1 + group->size()) * columns_max) * sizeof(float));
  }
  bool is_ready() const { return group != nullptr && ops != nullptr; }
  Tensor own(std::int64_t columns) const { return Tensor::f32(memory.as<float>(), 1, columns); }
  Tensor all(std::int64_t columns) const {
    return Tensor::f32(memory.as<float>() + columns_max, group->size(), columns);
  }

  // Puts onto the stream: this rank's row goes up, is exchanged, and everything is doubled.
  Result<void> issue(int round, bool as_one, std::int64_t columns) {
    Floats row(static_cast<std::size_t>(columns));
    for (std::int64_t i = 0; i < columns; ++i) row[static_cast<std::size_t>(i)] = value_of(group->rank(), round, i);
    const auto body = [&]() -> Result<void> {
      ops->memory().upload(std::as_bytes(std::span(row)), own(columns).data);
      if (!ops->gather(*group, own(columns), all(columns)))
        return Error{ErrorCode::internal, "gather", "refused", "done"};
      ops->scale(all(columns), 2, false);
      return {};
    };
    return as_one ? ops->run_as_one(body) : body();
  }

  // True if all rows are right; afterwards the group is at rest.
  bool exchanges(int round, bool as_one, std::int64_t columns = 512) {
    group->watch(true);
    if (!issue(round, as_one, columns)) return false;
    Floats back(static_cast<std::size_t>(group->size() * columns));
    if (!ops->memory().download(all(columns).data, std::as_writable_bytes(std::span(back)))) return false;
    for (std::size_t i = 0; i < back.size(); ++i) {
      const auto at = static_cast<std::int64_t>(i);
      if (back[i] != 2 * value_of(static_cast<int>(at / columns), round, at % columns)) return false;
    }
    group->watch(false);
    return true;
  }
};

// Runs body(rank) on two ranks that are threads with a device each; returns how many failed.
int failures_of_two(const std::function<bool(Rank&)>& body, std::chrono::milliseconds timeout = 20s) {
  auto controls = make_thread_communicators(2, 20s);
  std::atomic<int> wrong = 0;
  on_all_ranks(2, [&](int number) {
    Rank rank(reaching_devices(std::move(controls[static_cast<std::size_t>(number)]), number, timeout), number);
    if (!rank.is_ready() || !body(rank)) ++wrong;
  });
  return wrong;
}

// The other rank as a process of this executable; it exchanges `rounds` times and exits.
class SecondProcess {
 public:
  SecondProcess(std::uint16_t port, int rounds) {
    ::setenv(port_variable, std::to_string(port).c_str(), 1);
    ::setenv(rounds_variable, std::to_string(rounds).c_str(), 1);
    std::string name = "test_cuda", only = "--run_test=nccl/the_second_of_two_processes";
    char* arguments[] = {name.data(), only.data(), nullptr};
    if (::posix_spawn(&child_, "/proc/self/exe", nullptr, nullptr, arguments, environ) != 0) child_ = -1;
    ::unsetenv(port_variable);
  }
  SecondProcess(const SecondProcess&) = delete;
  SecondProcess& operator=(const SecondProcess&) = delete;
  ~SecondProcess() { (void)succeeds(); }
  // Waits for its end.
  bool succeeds() {
    int status = 1;
    if (child_ < 0) return false;
    const bool ended = ::waitpid(std::exchange(child_, -1), &status, 0) > 0;
    return ended && WIFEXITED(status) && WEXITSTATUS(status) == 0;
  }

 private:
  pid_t child_ = -1;
};

std::unique_ptr<Communicator> process_rank(int rank, std::uint16_t port, std::chrono::milliseconds timeout) {
  auto control = make_tcp_communicator(tcp_group(rank, 2, port));
  return control ? reaching_devices(std::move(*control), rank, timeout) : nullptr;
}

}  // namespace

BOOST_AUTO_TEST_CASE(one_rank_gets_its_own_block_by_operation_and_as_a_graph) {
  if (!has_device()) return;
  Rank rank(reaching_devices(make_solo_communicator(), 0), 0);
  BOOST_REQUIRE(rank.is_ready());
  for (int round = 0; round < 3; ++round) BOOST_TEST(rank.exchanges(round, false));
  for (int round = 3; round < 9; ++round) BOOST_TEST(rank.exchanges(round, true));
  BOOST_TEST(use_of(*rank.ops).graph_starts == 5);
}

BOOST_AUTO_TEST_CASE(two_threads_get_both_blocks_in_rank_order_at_any_size) {
  if (device_count() < 2) return;
  const auto body = [](Rank& rank) {
    int wrong = 0, round = 0;
    for (const std::int64_t columns : {1L, 3L, 127L, 512L, 5'121L, columns_max}) {
      for (int i = 0; i < 8; ++i) wrong += rank.exchanges(round++, i % 4 != 0, columns) ? 0 : 1;
    }
    return wrong == 0 && use_of(*rank.ops).graph_starts == 6 * 5;
  };
  BOOST_TEST(failures_of_two(body) == 0);
}

BOOST_AUTO_TEST_CASE(one_rank_may_start_a_graph_where_the_other_one_launches_by_operation) {
  if (device_count() < 2) return;
  const auto body = [](Rank& rank) {
    int wrong = 0;
    for (int round = 0; round < 24; ++round)
      wrong += rank.exchanges(round, (round + rank.group->rank()) % 3 != 0) ? 0 : 1;
    return wrong == 0;
  };
  BOOST_TEST(failures_of_two(body) == 0);
}

BOOST_AUTO_TEST_CASE(an_exchange_whose_peer_does_not_come_ends_at_its_deadline) {
  if (device_count() < 2) return;
  for (const bool as_one : {false, true}) {
    const auto body = [as_one](Rank& rank) {
      bool is_right = true;
      for (int round = 0; round < 4; ++round) is_right = rank.exchanges(round, as_one) && is_right;
      if (rank.group->rank() == 1) return is_right;  // and leaves
      rank.group->watch(true);
      const bool is_issued = rank.issue(4, as_one, 512).has_value();
      (void)rank.ops->wait();
      const auto error = rank.group->failure();
      return is_right && is_issued && error && error->code != ErrorCode::cancelled;  // the deadline, or NCCL saw it
    };
    BOOST_TEST(failures_of_two(body, 3s) == 0);
  }
}

BOOST_AUTO_TEST_CASE(abort_ends_an_exchange_in_flight) {
  if (device_count() < 2) return;
  std::atomic<bool> is_waiting = false;
  Communicator* waiting = nullptr;
  const auto body = [&](Rank& rank) {
    if (rank.group->rank() == 1) {
      if (!rank.exchanges(0, false)) return false;
      is_waiting.wait(false);
      waiting->abort("the user left");
      return true;
    }
    waiting = rank.group.get();
    bool is_right = rank.exchanges(0, false);
    is_right = rank.issue(1, false, 512).has_value() && is_right;
    is_waiting = true;
    is_waiting.notify_all();
    (void)rank.ops->wait();
    const auto error = rank.group->failure();
    return is_right && error && error->code == ErrorCode::cancelled;
  };
  BOOST_TEST(failures_of_two(body) == 0);
}

BOOST_AUTO_TEST_CASE(two_processes_exchange_and_a_lost_one_is_replaced) {
  if (device_count() < 2) return;
  for (const int rounds : {20, 5, 20}) {
    const std::uint16_t port = free_port();
    SecondProcess other(port, rounds);
    Rank rank(process_rank(0, port, 5s), 0);
    BOOST_REQUIRE(rank.is_ready());
    for (int round = 0; round < rounds; ++round) BOOST_TEST(rank.exchanges(round, round % 4 != 0));
    if (rounds == 5) {  // the other one is gone by now, or will be
      rank.group->watch(true);
      BOOST_TEST(rank.issue(rounds, false, 512).has_value());
      (void)rank.ops->wait();
      BOOST_TEST(rank.group->failure().has_value());
    }
    BOOST_TEST(other.succeeds());
  }
}

BOOST_AUTO_TEST_CASE(the_second_of_two_processes) {
  const char* port = std::getenv(port_variable);
  const char* rounds = std::getenv(rounds_variable);
  BOOST_TEST(true);
  if (port == nullptr || rounds == nullptr) return;
  Rank rank(process_rank(1, static_cast<std::uint16_t>(std::atoi(port)), 20s), 1);
  BOOST_REQUIRE(rank.is_ready());
  for (int round = 0; round < std::atoi(rounds); ++round) BOOST_TEST(rank.exchanges(round, round % 4 != 0));
  if (std::atoi(rounds) == 5) ::_exit(0);  // without a word
}

BOOST_AUTO_TEST_CASE(two_ranks_on_one_device_are_refused_on_both_and_keep_their_control) {
  if (!has_device()) return;
  auto controls = make_thread_communicators(2, 60s);
  std::atomic<int> refused = 0, kept = 0;
  on_all_ranks(2, [&](int number) {
    auto& control = controls[static_cast<std::size_t>(number)];
    const auto judged = reach_devices(control, {}, {&nccl_library(), 0, nullptr, {}});
    if (!judged && judged.error().code == ErrorCode::mismatch) ++refused;
    if (control != nullptr && gathers(*control, 0, 100)) ++kept;
  });
  BOOST_TEST(refused == 2);
  BOOST_TEST(kept == 2);
}

BOOST_AUTO_TEST_CASE(a_stopped_rank_gives_up_connecting_on_both) {
  if (device_count() < 2) return;
  auto controls = make_thread_communicators(2, 60s);
  const std::atomic<bool> stop = true;
  std::atomic<int> ended = 0;
  on_all_ranks(2, [&](int number) {
    NcclOptions options;
    options.device = number;
    options.stop = number == 1 ? &stop : nullptr;
    const auto made = make_nccl_communicator(nccl_library(), controls[static_cast<std::size_t>(number)], options);
    if (made || made.error().code == ErrorCode::cancelled) ++ended;  // made: it was connected at once
  });
  BOOST_TEST(ended == 2);
}

BOOST_AUTO_TEST_CASE(host_memory_goes_through_the_control_group) {
  if (!has_device()) return;
  const auto group = reaching_devices(make_solo_communicator(), 0);
  BOOST_REQUIRE(group != nullptr);
  BOOST_TEST(group->size() == 1);
  for (const std::size_t bytes : {0UL, 1UL, 1000UL}) BOOST_TEST(gathers(*group, 3, bytes));
}

BOOST_AUTO_TEST_CASE(after_abort_every_exchange_fails) {
  if (!has_device()) return;
  Rank rank(reaching_devices(make_solo_communicator(), 0), 0);
  BOOST_REQUIRE(rank.is_ready());
  rank.group->abort("the user left");
  rank.group->abort("again");
  const auto done = rank.group->all_gather_on(nullptr, bytes_of(rank.own(8)), bytes_of(rank.all(8)));
  BOOST_REQUIRE(!done);
  BOOST_TEST((done.error().code == ErrorCode::cancelled));
  BOOST_TEST(!gathers(*rank.group, 0, 8));
}

BOOST_AUTO_TEST_SUITE_END()
#endif
