// The pool's hand-over: a generation counter starts a job, a pending counter ends it; both are futex waits behind a
// short spin.
#include "gpu/cpu/thread_pool.hpp"

#include <algorithm>
#include <system_error>
#include <utility>

namespace tandem::gpu {
namespace {

// About 20 to 50 microseconds: longer than the serial parts between two jobs of a layer, shorter than anything a human
// pays for.
constexpr int spin_rounds = 1000;

thread_local const ThreadPool* current_pool = nullptr;
thread_local int current_worker = 0;

void relax() noexcept {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

// Marks this thread as a worker of `pool` while a part runs, so that nested jobs run inline.
class InsidePool {
 public:
  InsidePool(const ThreadPool* pool, int worker) noexcept : pool_(current_pool), worker_(current_worker) {
    current_pool = pool;
    current_worker = worker;
  }
  ~InsidePool() {
    current_pool = pool_;
    current_worker = worker_;
  }
  InsidePool(const InsidePool&) = delete;
  InsidePool& operator=(const InsidePool&) = delete;

 private:
  const ThreadPool* pool_;
  int worker_;
};

}  // namespace

ThreadPool::ThreadPool(int threads) {
  for (int worker = 1; worker < threads; ++worker) {
    try {
      workers_.emplace_back([this, worker] { work(worker); });
    } catch (const std::system_error&) {
      return;
    }
  }
}

ThreadPool::~ThreadPool() {
  stopping_.store(true, std::memory_order_release);
  generation_.fetch_add(1, std::memory_order_release);
  generation_.notify_all();
  for (std::thread& worker : workers_) worker.join();
}

void ThreadPool::run(const Job& job) {
  if (job.count <= 0) return;
  if (current_pool == this) return job.call(job.context, {current_worker, 0, job.count});
  const std::scoped_lock turn(callers_);
  const std::int64_t grain = std::max<std::int64_t>(job.grain, 1);
  parts_ = static_cast<int>(std::clamp<std::int64_t>(job.count / grain, 1, threads()));
  job_ = job;
  if (parts_ > 1) {
    pending_.store(threads() - 1, std::memory_order_relaxed);
    generation_.fetch_add(1, std::memory_order_release);
    generation_.notify_all();
  }
  run_part(0);
  if (parts_ > 1) wait_for_parts();
  if (failure_) std::rethrow_exception(std::exchange(failure_, nullptr));
}

void ThreadPool::work(int worker) {
  std::uint32_t seen = 0;
  while (wait_for_job(seen)) {
    ++seen;  // a job ends only when every worker has passed it, so generations are met one by one
    run_part(worker);
    if (pending_.fetch_sub(1, std::memory_order_acq_rel) == 1) pending_.notify_one();
  }
}

void ThreadPool::run_part(int worker) noexcept {
  if (worker >= parts_) return;
  const InsidePool inside(this, worker);
  try {
    job_.call(job_.context, {worker, job_.count * worker / parts_, job_.count * (worker + 1) / parts_});
  } catch (...) {
    const std::scoped_lock lock(failure_lock_);
    if (!failure_) failure_ = std::current_exception();
  }
}

// Returns false when the pool stops.
bool ThreadPool::wait_for_job(std::uint32_t seen) const noexcept {
  for (int round = 0; round < spin_rounds && generation_.load(std::memory_order_acquire) == seen; ++round) relax();
  while (generation_.load(std::memory_order_acquire) == seen) generation_.wait(seen, std::memory_order_acquire);
  return !stopping_.load(std::memory_order_acquire);
}

void ThreadPool::wait_for_parts() const noexcept {
  for (int round = 0; round < spin_rounds && pending_.load(std::memory_order_acquire) != 0; ++round) relax();
  for (int left = pending_.load(std::memory_order_acquire); left != 0;
       left = pending_.load(std::memory_order_acquire)) {
    pending_.wait(left, std::memory_order_acquire);
  }
}

}  // namespace tandem::gpu
