// Signals as values: the main thread waits for "stop" (SIGTERM, SIGINT) or for an event that another thread posts.
#pragma once

#include <mutex>
#include <optional>
#include <string>

namespace tandem::ops {

struct FatalEvent {
  int exit_code = 1;
  std::string reason;
};

class ProcessSignals {
 public:
  // Blocks the signals in this thread and all threads started later; one that arrives waits for wait(). Called first
  // thing in main() for the verbs that serve, so that a stop right after the start is a stop like any other.
  static void block();
  // Blocks them, if that was not done yet: construct it before any other thread exists.
  ProcessSignals() { block(); }
  // Wakes wait() with an event; the first one wins. Any thread.
  void post(FatalEvent event);
  // Returns the posted event, or nothing when the process was asked to stop.
  std::optional<FatalEvent> wait();

 private:
  std::mutex mutex_;
  std::optional<FatalEvent> event_;
};

}  // namespace tandem::ops
