// posix_spawnp starts, pipes carry, poll waits: everything up to one deadline.
#include "net/sync/command.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <optional>
#include <span>
#include <system_error>
#include <utility>

extern char** environ;

namespace tandem::net::sync {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t output_bytes_max = std::size_t{16} << 20;
constexpr std::size_t complaint_bytes_max = 2'000;
constexpr std::chrono::milliseconds look_again_after{100};

class Pipe {
 public:
  Pipe() {
    if (::pipe2(ends_.data(), O_CLOEXEC) != 0) ends_ = {-1, -1};
  }
  Pipe(const Pipe&) = delete;
  Pipe& operator=(const Pipe&) = delete;
  ~Pipe() {
    close_reader();
    close_writer();
  }
  bool is_open() const noexcept { return ends_[0] >= 0; }
  int reader() const noexcept { return ends_[0]; }
  int writer() const noexcept { return ends_[1]; }
  void close_reader() noexcept { close_end(0); }
  void close_writer() noexcept { close_end(1); }

 private:
  void close_end(std::size_t end) noexcept {
    if (ends_[end] >= 0) ::close(std::exchange(ends_[end], -1));
  }
  std::array<int, 2> ends_{-1, -1};
};

// A started process; killed if it is still there at the end.
class Child {
 public:
  struct Streams {
    int input = -1, output = -1, complaints = -1;  // -1: /dev/null
  };

  static Result<Child> start(const CommandLine& command, const Streams& streams) {
    std::vector<char*> argv;
    for (const std::string& word : command) argv.push_back(const_cast<char*>(word.c_str()));
    argv.push_back(nullptr);
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    connect(actions, streams.input, 0, O_RDONLY);
    connect(actions, streams.output, 1, O_WRONLY);
    connect(actions, streams.complaints, 2, O_WRONLY);
    Child child;
    const int failed = ::posix_spawnp(&child.pid_, argv[0], &actions, nullptr, argv.data(), environ);
    posix_spawn_file_actions_destroy(&actions);
    if (failed == 0) return child;
    child.pid_ = -1;
    return Error{failed == ENOENT ? ErrorCode::not_found : ErrorCode::io, command.front(),
                 std::generic_category().message(failed), "a program on PATH"};
  }

  Child(Child&& other) noexcept : pid_(std::exchange(other.pid_, -1)) {}
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;
  Child& operator=(Child&&) = delete;
  ~Child() {
    if (pid_ < 0) return;
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }

  // Returns how it ended, or nothing while it runs.
  std::optional<int> status() {
    int status = 0;
    if (pid_ < 0 || ::waitpid(pid_, &status, WNOHANG) != pid_) return std::nullopt;
    pid_ = -1;
    return status;
  }

 private:
  Child() = default;
  static void connect(posix_spawn_file_actions_t& actions, int from, int to, int flags) {
    if (from >= 0) {
      posix_spawn_file_actions_adddup2(&actions, from, to);
    } else {
      posix_spawn_file_actions_addopen(&actions, to, "/dev/null", flags, 0);
    }
  }
  pid_t pid_ = -1;
};

// What comes out of a pipe, the first or the last so many bytes.
struct Collected {
  int descriptor = -1;
  std::size_t bytes_max = 0;
  bool keeps_end = false;
  std::string text = {};
  bool is_over = false;
  bool is_too_long = false;

  void read_some() {
    std::array<char, 65'536> buffer;
    const ssize_t got = ::read(descriptor, buffer.data(), buffer.size());
    if (got < 0 && (errno == EINTR || errno == EAGAIN)) return;
    if (got <= 0) {
      is_over = true;
      return;
    }
    text.append(buffer.data(), static_cast<std::size_t>(got));
    if (text.size() <= bytes_max) return;
    is_too_long = true;
    text.erase(keeps_end ? 0 : bytes_max, text.size() - bytes_max);
  }
};

// Reads until all pipes are closed. False at the deadline.
bool collect(std::span<Collected* const> pipes, Clock::time_point deadline) {
  for (;;) {
    std::vector<pollfd> entries;
    std::vector<Collected*> open;
    for (Collected* pipe : pipes) {
      if (pipe->is_over) continue;
      open.push_back(pipe);
      entries.push_back({pipe->descriptor, POLLIN, 0});
    }
    if (open.empty()) return true;
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now()).count();
    if (left <= 0) return false;
    const int ready = ::poll(entries.data(), entries.size(), static_cast<int>(std::min<long long>(left, 60'000)));
    if (ready < 0 && errno != EINTR) return false;
    for (std::size_t i = 0; ready > 0 && i < open.size(); ++i) {
      if (entries[i].revents != 0) open[i]->read_some();
    }
  }
}

// A program may close its output before it ends.
std::optional<int> wait_for_end(Child& child, Clock::time_point deadline) {
  for (;;) {
    if (auto status = child.status()) return status;
    if (Clock::now() >= deadline) return std::nullopt;
    ::poll(nullptr, 0, static_cast<int>(look_again_after.count()));
  }
}

Error timed_out(const CommandLine& command, std::chrono::seconds limit) {
  return {ErrorCode::timeout, fmt::format("{}", fmt::join(command, " ")),
          fmt::format("no end within {} s", limit.count()), ""};
}

Result<void> judge_end(const CommandLine& command, int status, const std::string& complaints) {
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return {};
  std::string found = WIFEXITED(status) ? fmt::format("exit code {}", WEXITSTATUS(status))
                                        : fmt::format("ended by signal {}", WTERMSIG(status));
  const std::size_t last = complaints.find_last_not_of(" \n");
  if (last != std::string::npos) found += ": " + complaints.substr(0, last + 1);
  return Error{ErrorCode::unavailable, fmt::format("{}", fmt::join(command, " ")), std::move(found), "exit code 0"};
}

class ProcessRunner final : public CommandRunner {
 public:
  Result<std::string> run(const CommandLine& command, std::chrono::seconds limit) override {
    const auto deadline = Clock::now() + limit;
    Pipe output, complaints;
    if (!output.is_open() || !complaints.is_open()) return no_pipe();
    auto child = Child::start(command, {-1, output.writer(), complaints.writer()});
    if (!child) return child.error();
    output.close_writer();
    complaints.close_writer();
    Collected out{output.reader(), output_bytes_max}, err{complaints.reader(), complaint_bytes_max, true};
    const std::array pipes{&out, &err};
    if (!collect(pipes, deadline)) return timed_out(command, limit);
    const auto status = wait_for_end(*child, deadline);
    if (!status) return timed_out(command, limit);
    if (auto ended = judge_end(command, *status, err.text); !ended) return ended.error();
    if (out.is_too_long)
      return Error{ErrorCode::out_of_range, command.front(), "too much output",
                   fmt::format("at most {} bytes", output_bytes_max)};
    return std::move(out.text);
  }

  Result<void> pipe(const CommandLine& from, const CommandLine& to, std::chrono::seconds limit) override {
    const auto deadline = Clock::now() + limit;
    Pipe between, from_complaints, to_complaints;
    if (!between.is_open() || !from_complaints.is_open() || !to_complaints.is_open()) return no_pipe();
    auto reader = Child::start(to, {between.reader(), -1, to_complaints.writer()});
    if (!reader) return reader.error();
    auto writer = Child::start(from, {-1, between.writer(), from_complaints.writer()});
    if (!writer) return writer.error();
    between.close_reader();
    between.close_writer();
    from_complaints.close_writer();
    to_complaints.close_writer();
    Collected from_err{from_complaints.reader(), complaint_bytes_max, true};
    Collected to_err{to_complaints.reader(), complaint_bytes_max, true};
    const std::array pipes{&from_err, &to_err};
    if (!collect(pipes, deadline)) return timed_out(to, limit);
    const auto to_status = wait_for_end(*reader, deadline), from_status = wait_for_end(*writer, deadline);
    if (!to_status || !from_status) return timed_out(to, limit);
    // If the reader gives up, the writer complains of a broken pipe: the reader's reason is the one to tell.
    if (auto ended = judge_end(to, *to_status, to_err.text); !ended) return ended;
    return judge_end(from, *from_status, from_err.text);
  }

 private:
  static Error no_pipe() {
    return {ErrorCode::resource, "pipe", std::generic_category().message(errno), "a descriptor"};
  }
};

}  // namespace

std::unique_ptr<CommandRunner> make_command_runner() {
  return std::make_unique<ProcessRunner>();
}

}  // namespace tandem::net::sync
