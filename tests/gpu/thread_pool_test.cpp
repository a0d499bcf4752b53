// The thread pool: every item once, nesting, several callers, exceptions, sizes at the border.
#include <boost/test/unit_test.hpp>

#include <atomic>
#include <numeric>
#include <stdexcept>
#include <thread>
#include <vector>

#include "gpu/cpu/thread_pool.hpp"

using namespace tandem::gpu;

BOOST_AUTO_TEST_SUITE(thread_pool)

BOOST_AUTO_TEST_CASE(every_item_is_computed_exactly_once_for_any_count_grain_and_thread_number) {
  for (const int threads : {1, 2, 3, 5}) {
    ThreadPool pool(threads);
    for (const std::int64_t count : {0, 1, 2, 7, 64, 1000}) {
      for (const std::int64_t grain : {0, 1, 10, 5000}) {
        std::vector<int> seen(static_cast<std::size_t>(count));
        pool.parallel_for(count, grain, [&](const WorkRange& range) {
          for (std::int64_t i = range.first; i < range.last; ++i) ++seen[static_cast<std::size_t>(i)];
        });
        pool.for_each_unit(count, grain, [&](int, std::int64_t unit) { ++seen[static_cast<std::size_t>(unit)]; });
        BOOST_TEST(std::all_of(seen.begin(), seen.end(), [](int n) { return n == 2; }));
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(a_worker_number_is_below_the_thread_count_and_used_by_one_thread_at_a_time) {
  ThreadPool pool(3);
  std::vector<std::atomic<int>> inside(3);
  std::atomic<bool> shared{false};
  pool.for_each_unit(200, 1, [&](int worker, std::int64_t) {
    if (inside[static_cast<std::size_t>(worker)].fetch_add(1) != 0) shared = true;
    std::this_thread::yield();
    inside[static_cast<std::size_t>(worker)].fetch_sub(1);
  });
  BOOST_TEST(!shared);
}

BOOST_AUTO_TEST_CASE(a_nested_job_runs_on_the_calling_worker) {
  ThreadPool pool(2);
  std::atomic<std::int64_t> sum{0};
  std::atomic<int> moved{0};
  pool.parallel_for(4, 1, [&](const WorkRange& outer) {
    pool.parallel_for(10, 1, [&](const WorkRange& inner) {
      if (inner.worker != outer.worker) ++moved;
      sum += (inner.last - inner.first) * (outer.last - outer.first);
    });
  });
  BOOST_TEST(moved == 0);
  BOOST_TEST(sum == 40);
}

BOOST_AUTO_TEST_CASE(callers_from_several_threads_take_turns) {
  ThreadPool pool(2);
  std::vector<std::int64_t> sums(4);
  std::vector<std::thread> callers;
  for (std::size_t c = 0; c < sums.size(); ++c) {
    callers.emplace_back([&, c] {
      for (int round = 0; round < 50; ++round) {
        std::atomic<std::int64_t> sum{0};
        pool.parallel_for(100, 1, [&](const WorkRange& range) { sum += range.last - range.first; });
        sums[c] += sum;
      }
    });
  }
  for (std::thread& caller : callers) caller.join();
  for (const std::int64_t sum : sums) BOOST_TEST(sum == 5000);
}

BOOST_AUTO_TEST_CASE(an_exception_of_a_worker_reaches_the_caller_and_leaves_the_pool_usable) {
  ThreadPool pool(2);
  BOOST_CHECK_THROW(pool.parallel_for(2, 1,
                                      [](const WorkRange& range) {
                                        if (range.last == 2) throw std::runtime_error("worker");
                                      }),
                    std::runtime_error);
  std::atomic<int> done{0};
  pool.parallel_for(2, 1, [&](const WorkRange& range) { done += static_cast<int>(range.last - range.first); });
  BOOST_TEST(done == 2);
}

BOOST_AUTO_TEST_SUITE_END()
