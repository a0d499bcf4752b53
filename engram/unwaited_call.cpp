// A detached POSIX thread around one packaged call.
#include "engram/unwaited_call.hpp"

#include <pthread.h>

#include <memory>
#include <utility>

namespace tandem {
namespace {

using Call = std::packaged_task<void()>;

void* run_call(void* owned) {
  const std::unique_ptr<Call> call(static_cast<Call*>(owned));
  (*call)();
  return nullptr;
}

}  // namespace

std::optional<std::future<void>> start_unwaited(std::function<void()> call) {
  auto task = std::make_unique<Call>(std::move(call));
  auto end = task->get_future();
  pthread_attr_t attributes;
  if (::pthread_attr_init(&attributes) != 0) return std::nullopt;
  ::pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
  pthread_t thread{};
  const bool is_started = ::pthread_create(&thread, &attributes, run_call, task.get()) == 0;
  ::pthread_attr_destroy(&attributes);
  if (!is_started) return std::nullopt;
  (void)task.release();  // the thread's now
  return end;
}

}  // namespace tandem
