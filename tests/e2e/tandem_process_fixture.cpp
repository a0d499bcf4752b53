// Child processes: spawned with a pipe, read by a thread, reaped on every path.
#include <arpa/inet.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <boost/test/unit_test.hpp>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>

#include "tests/build_paths.hpp"
#include "tests/e2e/tandem_process.hpp"

extern char** environ;

namespace tandem::test {

namespace fs = std::filesystem;

TandemProcess::TandemProcess(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), tandem_binary().string());
  std::vector<char*> argv;
  for (auto& argument : arguments) argv.push_back(argument.data());
  argv.push_back(nullptr);
  int ends[2];
  BOOST_REQUIRE(::pipe2(ends, O_CLOEXEC) == 0);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, ends[1], 1);
  posix_spawn_file_actions_adddup2(&actions, ends[1], 2);
  const int failed = ::posix_spawn(&pid_, argv.front(), &actions, nullptr, argv.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  ::close(ends[1]);
  BOOST_REQUIRE(failed == 0);
  reader_ = std::thread([this, descriptor = ends[0]] { read_output(descriptor); });
}

TandemProcess::~TandemProcess() {
  if (!wait_for_exit(std::chrono::milliseconds(0))) {
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
  reader_.join();
}

void TandemProcess::send(int signal) const {
  ::kill(pid_, signal);
}

void TandemProcess::read_output(int descriptor) {
  char bytes[4096];
  for (ssize_t got = 0; (got = ::read(descriptor, bytes, sizeof bytes)) > 0;) {
    std::lock_guard lock{mutex_};
    output_.append(bytes, static_cast<std::size_t>(got));
    changed_.notify_all();
  }
  ::close(descriptor);
  std::lock_guard lock{mutex_};
  is_over_ = true;
  changed_.notify_all();
}

std::optional<std::string> TandemProcess::wait_for_line(const std::string& text, std::chrono::milliseconds limit) {
  std::unique_lock lock{mutex_};
  std::optional<std::string> line;
  changed_.wait_for(lock, limit, [&] {
    const auto at = output_.find(text);
    if (at == std::string::npos) return is_over_;
    const auto end = output_.find('\n', at);
    if (end == std::string::npos) return is_over_;
    const auto begin = output_.rfind('\n', at);
    const auto first = begin == std::string::npos ? 0 : begin + 1;
    line = output_.substr(first, end - first);
    return true;
  });
  return line;
}

std::optional<int> TandemProcess::wait_for_exit(std::chrono::milliseconds limit) {
  if (exit_code_) return exit_code_;
  const auto deadline = std::chrono::steady_clock::now() + limit;
  for (;;) {
    int status = 0;
    if (::waitpid(pid_, &status, WNOHANG) == pid_) {
      exit_code_ = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
      // Its last words may still be in the pipe.
      std::unique_lock lock{mutex_};
      changed_.wait_for(lock, std::chrono::seconds(10), [this] { return is_over_; });
      return exit_code_;
    }
    const auto left = deadline - std::chrono::steady_clock::now();
    if (left <= std::chrono::milliseconds(0)) return std::nullopt;
    // The end of the output is the news that matters; the timeout covers a child that closed it early.
    std::unique_lock lock{mutex_};
    changed_.wait_for(lock, std::min<std::chrono::nanoseconds>(left, std::chrono::milliseconds(50)));
  }
}

std::string TandemProcess::output() const {
  std::lock_guard lock{mutex_};
  return output_;
}

std::uint64_t TandemProcess::rss_bytes() const {
  std::ifstream status{"/proc/" + std::to_string(pid_) + "/status"};
  for (std::string word; status >> word;) {
    std::uint64_t kib = 0;
    if (word == "VmRSS:" && status >> kib) return kib * 1024;
  }
  return 0;
}

TandemServer::TandemServer(const std::string& model, std::vector<std::string> more) : state_folder_(make_folder()) {
  std::vector<std::string> arguments{"serve", "--model", model, "--port", "0", "--state-dir", state_folder_};
  arguments.insert(arguments.end(), more.begin(), more.end());
  process_ = std::make_unique<TandemProcess>(std::move(arguments));
  const auto listening = process_->wait_for_line("listening on http://");
  BOOST_REQUIRE_MESSAGE(listening, process_->output());
  port_ = static_cast<std::uint16_t>(std::stoi(listening->substr(listening->rfind(':') + 1)));
  BOOST_REQUIRE_MESSAGE(process_->wait_for_line("ready: "), process_->output());
}

TandemServer::~TandemServer() {
  process_.reset();
  std::error_code ignored;
  fs::remove_all(state_folder_, ignored);
}

std::string tiny_model() {
  return source_folder().string() + "/configs/tiny";
}

std::string make_folder() {
  std::string pattern = (fs::temp_directory_path() / "tandem-test-XXXXXX").string();
  BOOST_REQUIRE(::mkdtemp(pattern.data()) != nullptr);
  return pattern;
}

namespace {

// Returns a bound, not listening socket on a loopback port (0: any), or -1.
int bind_loopback(std::uint16_t port, std::uint16_t* bound) {
  const int descriptor = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  auto* plain = reinterpret_cast<sockaddr*>(&address);
  if (::bind(descriptor, plain, size) != 0 || ::getsockname(descriptor, plain, &size) != 0) {
    ::close(descriptor);
    return -1;
  }
  *bound = ntohs(address.sin_port);
  return descriptor;
}

}  // namespace

std::uint16_t free_port_pair() {
  for (int attempt = 0; attempt < 100; ++attempt) {
    std::uint16_t first = 0, second = 0;
    const int one = bind_loopback(0, &first);
    const int two = first < 65535 ? bind_loopback(static_cast<std::uint16_t>(first + 1), &second) : -1;
    if (one >= 0) ::close(one);
    if (two >= 0) ::close(two);
    if (one >= 0 && two >= 0) return first;
  }
  BOOST_FAIL("no two neighbouring ports are free");
  return 0;
}

}  // namespace tandem::test
