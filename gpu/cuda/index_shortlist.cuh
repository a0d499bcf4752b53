// The choice of the best k of n scores by way of a list that is short enough for shared memory.
//
// A sample guesses a score that some thousand entries reach; one read of all scores lists those. If the list has at
// least k entries the best k are among them, whatever the sample was, and the exact choice (index_select.cuh) reads the
// list alone. If it has fewer, or more than there is room for, the choice reads all scores as it would a short row.
#pragma once

#include <cfloat>

#include "gpu/cuda/index_select.cuh"

namespace tandem::gpu::cuda::selection {

inline constexpr int list_most = 4096;

// Entries that reach the guess, ascending.
struct Shortlist {
  alignas(16) float scores[list_most];
  int entries[list_most];
};

// Finds the k-th largest key. With fewer than k keys everything is chosen.
__device__ inline Choice find_threshold(const float* scores, std::int64_t n, int k, Shared& shared) {
  if (threadIdx.x == 0) shared.remaining = k;
  unsigned prefix = 0;
  for (int shift = 24; shift >= 0; shift -= 8) {
    count_bytes(scores, n, prefix, shift, shared);
    if (threadIdx.x < warp_size) find_bin(shared.counts, prefix, shift, shared);
    __syncthreads();
    if (shared.remaining == 0) return {0, 0};
    prefix = shared.choice.threshold;
  }
  return {prefix, shared.remaining};
}

// A score that some `wanted` of n scores reach, by eight neighbours in each of `threads` places. Two bytes of its key
// are enough for a guess. Where the sample has too few that may be chosen, the least finite score.
__device__ inline float guess_score(const float* scores, std::int64_t n, int wanted, Shared& shared) {
  constexpr std::int64_t samples = threads * per_thread;
  const std::int64_t place = n / samples * threadIdx.x + n % samples * threadIdx.x / samples;
  unsigned keys[per_thread];
  load_keys_at(scores, n, place * per_thread, keys);
  const std::int64_t sampled = wanted * samples / n;
  if (threadIdx.x == 0) shared.remaining = sampled < 1 ? 1 : static_cast<int>(sampled);
  unsigned prefix = 0;
  for (int shift = 24; shift >= 16; shift -= 8) {
    clear_counts(shared);
    count_keys(keys, prefix, shift, shared);
    __syncthreads();
    if (threadIdx.x < warp_size) find_bin(shared.counts, prefix, shift, shared);
    __syncthreads();
    if (shared.remaining == 0) return -FLT_MAX;
    prefix = shared.choice.threshold;
  }
  // The smallest score of the bin; where that would be beyond the finite ones, the least of those.
  const float guess = score_of_key(prefix);
  return guess > -FLT_MAX ? guess : -FLT_MAX;
}

inline constexpr int part_scores = threads * per_thread;
inline constexpr int parts_abreast = 4;  // read before one scan; a byte of a thread's hits each

// Bit i says that score `first` + i is at least `least`.
__device__ inline unsigned hits_of(const float* scores, std::int64_t n, std::int64_t first, float least) {
  unsigned hits = 0;
#pragma unroll
  for (int i = 0; i < per_thread; i += 4) {
    const std::int64_t own = first + i;
    if (own + 4 <= n) {
      const float4 four = *reinterpret_cast<const float4*>(scores + own);
      hits |= (four.x >= least ? 1U : 0U) << i | (four.y >= least ? 2U : 0U) << i;
      hits |= (four.z >= least ? 4U : 0U) << i | (four.w >= least ? 8U : 0U) << i;
    } else {
      for (int j = 0; own + j < n; ++j) hits |= (scores[own + j] >= least ? 1U : 0U) << (i + j);
    }
  }
  return hits;
}

// Lists the entries `entry` + i of the set bits i from `position` on.
__device__ inline void list_hits(unsigned hits, int entry, int position, Shortlist& list) {
  for (; hits != 0; hits &= hits - 1, ++position) {
    if (position < list_most) list.entries[position] = entry + __ffs(static_cast<int>(hits)) - 1;
  }
}

// Lists the scores that are at least `least`, which is not -infinity. Returns how many there are; beyond list_most it
// may stop to count.
__device__ inline int shorten(const float* scores, std::int64_t n, float least, Shared& shared, Shortlist& list) {
  constexpr int upper = 1 << 16;
  static_assert(part_scores < upper, "hits of two parts are counted in one number");
  int listed = 0;
  for (std::int64_t first = 0; first < n && listed <= list_most; first += parts_abreast * part_scores) {
    const std::int64_t own = first + static_cast<std::int64_t>(threadIdx.x) * per_thread;
    unsigned hits[parts_abreast];
#pragma unroll
    for (int part = 0; part < parts_abreast; ++part) hits[part] = hits_of(scores, n, own + part * part_scores, least);
#pragma unroll
    for (int part = 0; part < parts_abreast; part += 2) {
      int total = 0;
      const int before = scan(__popc(hits[part]) + __popc(hits[part + 1]) * upper, shared, total);
      const int entry = static_cast<int>(own) + part * part_scores;
      list_hits(hits[part], entry, listed + before % upper, list);
      list_hits(hits[part + 1], entry + part_scores, listed + total % upper + before / upper, list);
      listed += total % upper + total / upper;
    }
  }
  __syncthreads();
  for (int i = threadIdx.x; i < listed && i < list_most; i += threads) list.scores[i] = scores[list.entries[i]];
  __syncthreads();
  return listed;
}

// Calls take(position among the chosen, entry) for the best k, ascending. Returns how many there are.
template <class Take>
__device__ int choose_best(const float* scores, std::int64_t n, int k, Shared& shared, Shortlist& list,
                           const Take& take) {
  if (n > list_most && k < list_most) {
    const int spare = (list_most - k) / 2;
    const float least = guess_score(scores, n, k + (3 * k < spare ? 3 * k : spare), shared);
    const int listed = shorten(scores, n, least, shared, list);
    if (listed >= k && listed <= list_most) {
      const Choice choice = find_threshold(list.scores, listed, k, shared);
      return take_chosen(list.scores, listed, choice, {}, shared,
                         [&](int position, int at) { take(position, list.entries[at]); });
    }
  }
  const Choice choice = find_threshold(scores, n, k, shared);
  return take_chosen(scores, n, choice, {}, shared, take);
}

}  // namespace tandem::gpu::cuda::selection
