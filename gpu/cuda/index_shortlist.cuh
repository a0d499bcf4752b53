// The choice of the best k of n scores by way of a list that is short enough for shared memory.
//
// A sample guesses a score that some thousand entries reach; one read of all scores lists those. If the list has at
// least k entries the best k are among them, whatever the sample was, and the exact choice (index_select.cuh) reads the
// list alone. If it has fewer, or more than there is room for, the choice reads all scores as it would a short row.
#pragma once

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

// A key that some `wanted` of n scores reach, by eight neighbours in each of `threads` places; at least 1, which every
// score reaches that may be chosen. Its lower half is zero: two bytes are enough for a guess.
__device__ inline unsigned guess_key(const float* scores, std::int64_t n, int wanted, Shared& shared) {
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
    if (shared.remaining == 0) return 1;
    prefix = shared.choice.threshold;
  }
  return prefix == 0 ? 1 : prefix;
}

// Lists the scores whose keys reach `least`. Returns how many there are, listed or not.
__device__ inline int shorten(const float* scores, std::int64_t n, unsigned least, Shared& shared, Shortlist& list) {
  constexpr std::int64_t step = threads * per_thread;
  int listed = 0;
  unsigned keys[per_thread], next[per_thread];
  load_keys(scores, n, 0, next);
  for (std::int64_t first = 0; first < n && listed <= list_most; first += step) {
    int own = 0, total = 0;
#pragma unroll
    for (int i = 0; i < per_thread; ++i) {
      keys[i] = next[i];
      own += keys[i] >= least ? 1 : 0;
    }
    load_keys(scores, n, first + step, next);  // on its way while the others are counted
    int position = listed + scan(own, shared, total);
    listed += total;
    const int entry = static_cast<int>(first) + static_cast<int>(threadIdx.x) * per_thread;
    for (int i = 0; i < per_thread && own > 0; ++i) {
      if (keys[i] < least) continue;
      if (position < list_most) {
        list.scores[position] = score_of_key(keys[i]);
        list.entries[position] = entry + i;
      }
      ++position;
    }
  }
  __syncthreads();
  return listed;
}

// Calls take(position among the chosen, entry) for the best k, ascending. Returns how many there are.
template <class Take>
__device__ int choose_best(const float* scores, std::int64_t n, int k, Shared& shared, Shortlist& list,
                           const Take& take) {
  if (n > list_most && k < list_most) {
    const int spare = (list_most - k) / 2;
    const unsigned least = guess_key(scores, n, k + (3 * k < spare ? 3 * k : spare), shared);
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
