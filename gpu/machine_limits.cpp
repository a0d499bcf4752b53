// See machine_limits.hpp. Both loops are as plain as can be: the best of several repetitions is the limit, since
// anything else that runs on the machine only ever makes a repetition slower.
#include "gpu/machine_limits.hpp"

#include "gpu/cpu/simd/targets.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "gpu/machine_limits.cpp"
#include <hwy/foreach_target.h>

#include <hwy/highway.h>

#include <cstdint>

HWY_BEFORE_NAMESPACE();
namespace tandem::gpu {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// Returns a value that depends on every word, so that no read is left out.
std::uint64_t ReadAll(const std::uint64_t* words, std::size_t count) {
  const hn::ScalableTag<std::uint64_t> d;
  const std::size_t lanes = hn::Lanes(d);
  auto a = hn::Zero(d), b = hn::Zero(d), c = hn::Zero(d), e = hn::Zero(d);
  for (std::size_t i = 0; i + 4 * lanes <= count; i += 4 * lanes) {
    a = hn::Add(a, hn::LoadU(d, words + i));
    b = hn::Add(b, hn::LoadU(d, words + i + lanes));
    c = hn::Add(c, hn::LoadU(d, words + i + 2 * lanes));
    e = hn::Add(e, hn::LoadU(d, words + i + 3 * lanes));
  }
  return hn::GetLane(hn::SumOfLanes(d, hn::Add(hn::Add(a, b), hn::Add(c, e))));
}

// Runs `rounds` x 8 independent vector multiply-adds; returns the FLOPs done and a value in `sink`.
double MultiplyAdd(std::size_t rounds, float* sink) {
  const hn::ScalableTag<float> d;
  const auto factor = hn::Set(d, 0.999F), term = hn::Set(d, 0.001F);
  auto v0 = term, v1 = term, v2 = term, v3 = term, v4 = term, v5 = term, v6 = term, v7 = term;
  for (std::size_t i = 0; i < rounds; ++i) {
    v0 = hn::MulAdd(v0, factor, term);
    v1 = hn::MulAdd(v1, factor, term);
    v2 = hn::MulAdd(v2, factor, term);
    v3 = hn::MulAdd(v3, factor, term);
    v4 = hn::MulAdd(v4, factor, term);
    v5 = hn::MulAdd(v5, factor, term);
    v6 = hn::MulAdd(v6, factor, term);
    v7 = hn::MulAdd(v7, factor, term);
  }
  const auto sum = hn::Add(hn::Add(hn::Add(v0, v1), hn::Add(v2, v3)), hn::Add(hn::Add(v4, v5), hn::Add(v6, v7)));
  *sink = hn::GetLane(hn::SumOfLanes(d, sum));
  return static_cast<double>(rounds) * 8 * 2 * static_cast<double>(hn::Lanes(d));
}

const char* TargetName() {
  return hwy::TargetName(HWY_TARGET);
}

}  // namespace HWY_NAMESPACE
}  // namespace tandem::gpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE

#include <algorithm>
#include <chrono>
#include <vector>

#include "gpu/cpu/thread_pool.hpp"

namespace tandem::gpu {

HWY_EXPORT(ReadAll);
HWY_EXPORT(MultiplyAdd);
HWY_EXPORT(TargetName);

namespace {

constexpr std::size_t words_per_thread = std::size_t{16}
                                         << 20;  // 128 MiB: larger than the last-level cache share of a thread
constexpr std::size_t rounds = 4'000'000;
constexpr int repetitions = 4;

template <class Body>
double best_seconds(ThreadPool& pool, Body&& body) {
  double best = 1e30;
  for (int i = 0; i < repetitions; ++i) {
    const auto begin = std::chrono::steady_clock::now();
    pool.parallel_for(pool.threads(), 1, body);
    best = std::min(best, std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
  }
  return best;
}

}  // namespace

MachineLimits measure_machine_limits(int threads) {
  ThreadPool pool{std::max(threads, 1)};
  const auto count = static_cast<std::size_t>(pool.threads());
  const std::vector<std::uint64_t> words(words_per_thread * count, 3);
  std::vector<std::uint64_t> read(count);
  std::vector<float> sinks(count);
  std::vector<double> flops(count);
  const double read_seconds = best_seconds(pool, [&](const WorkRange& range) {
    for (auto i = static_cast<std::size_t>(range.first); i < static_cast<std::size_t>(range.last); ++i)
      read[i] = HWY_DYNAMIC_DISPATCH(ReadAll)(words.data() + i * words_per_thread, words_per_thread);
  });
  const double flop_seconds = best_seconds(pool, [&](const WorkRange& range) {
    for (auto i = static_cast<std::size_t>(range.first); i < static_cast<std::size_t>(range.last); ++i)
      flops[i] = HWY_DYNAMIC_DISPATCH(MultiplyAdd)(rounds, &sinks[i]);
  });
  double total = 0;
  for (const double f : flops) total += f;
  MachineLimits limits;
  limits.read_bytes_per_s = static_cast<double>(words.size() * sizeof(std::uint64_t)) / read_seconds;
  limits.flops_per_s = total / flop_seconds;
  limits.simd = HWY_DYNAMIC_DISPATCH(TargetName)();
  return limits;
}

}  // namespace tandem::gpu

#endif  // HWY_ONCE
