// ThreadPool: the compute threads of one rank. One job at a time, split statically, the caller works too.
//
// A job is a range of independent items; which thread computes an item never changes its bits, so the split may follow
// the number of threads. Idle workers spin for some microseconds (the next job of a forward pass usually follows at
// once), then sleep in the kernel: an idle server burns nothing. Several pools may live in one process.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <exception>
#include <memory>
#include <mutex>
#include <thread>
#include <type_traits>
#include <vector>

namespace tandem::gpu {

// Items [first, last) of a job, computed by one worker. worker < threads() names per-worker scratch memory.
struct WorkRange {
  int worker = 0;
  std::int64_t first = 0;
  std::int64_t last = 0;
};

class ThreadPool {
 public:
  // `threads` includes the calling thread; at least 1. If the system refuses a thread, the pool runs with fewer.
  explicit ThreadPool(int threads);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int threads() const noexcept { return static_cast<int>(workers_.size()) + 1; }

  // Calls body(WorkRange) for ranges that cover [0, count), at most one a worker and none smaller than `grain` items
  // (but the whole job); returns when all are done. Called from inside a body it runs the range on the calling worker.
  // Calls from several threads take turns. An exception of a body is rethrown here, after every range has ended.
  template <class Body>
  void parallel_for(std::int64_t count, std::int64_t grain, Body&& body) {
    using Plain = std::remove_reference_t<Body>;
    run({count, grain, &body, [](const void* context, const WorkRange& range) {
           (*static_cast<Plain*>(const_cast<void*>(context)))(range);
         }});
  }

  // Calls body(worker, unit) for every unit in [0, count); whichever worker is free takes the next one, so unequal
  // units and unequal cores even out. No more workers take part than there are `grain`s of units.
  template <class Body>
  void for_each_unit(std::int64_t count, std::int64_t grain, Body&& body) {
    std::atomic<std::int64_t> next{0};  // relaxed: only hands out numbers; the job's own hand-over publishes the data
    if (count <= 0) return;
    const std::int64_t workers = std::clamp<std::int64_t>(count / std::max<std::int64_t>(grain, 1), 1, threads());
    parallel_for(workers, 1, [&](const WorkRange& range) {
      for (auto unit = next.fetch_add(1, std::memory_order_relaxed); unit < count;
           unit = next.fetch_add(1, std::memory_order_relaxed)) {
        body(range.worker, unit);
      }
    });
  }

 private:
  struct Job {
    std::int64_t count = 0;
    std::int64_t grain = 1;
    const void* context = nullptr;
    void (*call)(const void*, const WorkRange&) = nullptr;
  };

  void run(const Job& job);
  void work(int worker);
  void run_part(int worker) noexcept;
  bool wait_for_job(std::uint32_t seen) const noexcept;
  void wait_for_parts() const noexcept;

  // Three groups on cache lines of their own: what the caller writes before a job, what idle workers spin on, and what
  // every worker that finishes decrements.
  static constexpr std::size_t cache_line = 64;

  std::mutex callers_;  // held by the thread whose job runs
  Job job_;             // written by the caller before generation_ moves, read by workers after
  int parts_ = 0;
  std::exception_ptr failure_;
  std::mutex failure_lock_;
  // Release by the caller publishes job_ and parts_; acquire by workers.
  alignas(cache_line) std::atomic<std::uint32_t> generation_{0};
  // Release by each worker publishes its results; acquire by the caller at zero.
  alignas(cache_line) std::atomic<int> pending_{0};
  alignas(cache_line) std::atomic<bool> stopping_{false};
  std::vector<std::thread> workers_;
};

}  // namespace tandem::gpu
