// Signals are blocked everywhere and taken by sigwait in the main thread: no handler runs, nothing is
// async-signal-unsafe.
#include "ops/process_signals.hpp"

#include <unistd.h>
#include <csignal>

namespace tandem::ops {

namespace {

// SIGUSR1 is our own wake-up call: it never arrives from outside in normal use, and does no harm if it does.
sigset_t handled_signals() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGTERM);
  sigaddset(&set, SIGINT);
  sigaddset(&set, SIGUSR1);
  return set;
}

}  // namespace

void ProcessSignals::block() {
  const sigset_t set = handled_signals();
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
  std::signal(SIGPIPE, SIG_IGN);
}

void ProcessSignals::post(FatalEvent event) {
  {
    std::lock_guard lock{mutex_};
    if (event_) return;
    event_ = std::move(event);
  }
  kill(getpid(), SIGUSR1);
}

std::optional<FatalEvent> ProcessSignals::wait() {
  const sigset_t set = handled_signals();
  for (;;) {
    int signal = 0;
    if (sigwait(&set, &signal) != 0) continue;
    if (signal == SIGTERM || signal == SIGINT) return std::nullopt;
    std::lock_guard lock{mutex_};
    if (event_) return event_;
  }
}

}  // namespace tandem::ops
