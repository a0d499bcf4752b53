// ThreadTimes: the processor time that this process's threads have had so far, by the threads' names.
#pragma once

#include <chrono>
#include <map>
#include <string>

namespace tandem::ops {

struct ThreadTime {
  std::chrono::nanoseconds ran{};     // on a core
  std::chrono::nanoseconds waited{};  // ready to run, without one
};

// Threads of one name are added up; those that have ended are gone. Empty where the kernel does not tell.
using ThreadTimes = std::map<std::string, ThreadTime>;
ThreadTimes read_thread_times();

// Names the calling thread; at most 15 characters count.
void name_thread(const char* name);

}  // namespace tandem::ops
