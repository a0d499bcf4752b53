// /proc/self/task/*/schedstat: nanoseconds on a core, nanoseconds in a run queue.
#include "ops/verbs/thread_times.hpp"

#include <pthread.h>

#include <filesystem>
#include <fstream>

namespace tandem::ops {

ThreadTimes read_thread_times() {
  ThreadTimes times;
  std::error_code error;
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task", error)) {
    std::ifstream statistics{task.path() / "schedstat"}, named{task.path() / "comm"};
    std::int64_t ran = 0, waited = 0;
    std::string name;
    if (!(statistics >> ran >> waited) || !std::getline(named, name)) continue;
    times[name].ran += std::chrono::nanoseconds{ran};
    times[name].waited += std::chrono::nanoseconds{waited};
  }
  return times;
}

void name_thread(const char* name) {
  pthread_setname_np(pthread_self(), name);
}

}  // namespace tandem::ops
