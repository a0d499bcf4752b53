// A running `tandem` of this build: started with arguments, watched through its output, ended by a signal. Nothing it
// starts outlives it.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

namespace tandem::test {

// Sanitizers make everything slower; deadlines and amounts of work follow.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool is_sanitized = true;
#else
inline constexpr bool is_sanitized = false;
#endif
inline constexpr auto start_limit = std::chrono::seconds(is_sanitized ? 180 : 60);

class TandemProcess {
 public:
  explicit TandemProcess(std::vector<std::string> arguments);
  ~TandemProcess();  // SIGKILL if it still runs
  TandemProcess(const TandemProcess&) = delete;
  TandemProcess& operator=(const TandemProcess&) = delete;

  int pid() const noexcept { return pid_; }
  void send(int signal) const;
  // Waits for a line that contains `text`; nothing when the deadline or the output's end comes first.
  std::optional<std::string> wait_for_line(const std::string& text, std::chrono::milliseconds limit = start_limit);
  // Waits for the end; the exit code, 128 + signal, or nothing past the deadline.
  std::optional<int> wait_for_exit(std::chrono::milliseconds limit);
  std::string output() const;
  // Resident memory in bytes.
  std::uint64_t rss_bytes() const;

 private:
  void read_output(int descriptor);

  int pid_ = -1;
  std::optional<int> exit_code_;
  std::thread reader_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::string output_;
  bool is_over_ = false;
};

// A head that serves a model on a free port with its own state folder.
class TandemServer {
 public:
  // `more` is appended to `serve --model MODEL --port 0`. Waits for READY.
  explicit TandemServer(const std::string& model, std::vector<std::string> more = {});
  std::uint16_t port() const noexcept { return port_; }
  TandemProcess& process() noexcept { return *process_; }
  const std::string& state_folder() const noexcept { return state_folder_; }
  ~TandemServer();

 private:
  std::string state_folder_;
  std::unique_ptr<TandemProcess> process_;
  std::uint16_t port_ = 0;
};

std::string tiny_model();
// Returns a new empty folder below the system's temporary folder.
std::string make_folder();
// Returns a TCP port that was free a moment ago, with the next one free too.
std::uint16_t free_port_pair();

}  // namespace tandem::test
