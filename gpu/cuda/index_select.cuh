// What the choices of the best k of n scores share: keys, histograms of their bytes, positions of what is chosen.
#pragma once

#include <math_constants.h>

#include "gpu/cuda/index_kernels.hpp"
#include "gpu/cuda/lanes.cuh"

namespace tandem::gpu::cuda::selection {

inline constexpr int threads = 1024;
inline constexpr int warps = threads / warp_size;
inline constexpr int bins = 256;
inline constexpr int per_thread = 8;  // consecutive scores of one thread; lists begin on 16 bytes

// Maps finite floats and +infinity to integers of the same order, -0 and +0 to the same; what may not be chosen to 0.
__device__ inline unsigned key_of(float score) {
  if (!(score > -CUDART_INF_F)) return 0;
  const unsigned bits = __float_as_uint(score + 0.0F);
  return (bits & f32_sign_bit) != 0 ? ~bits : bits | f32_sign_bit;
}

// The score of a key that is not 0; -0 has become +0.
__device__ inline float score_of_key(unsigned key) {
  return __uint_as_float((key & f32_sign_bit) != 0 ? key & ~f32_sign_bit : ~key);
}

// What is chosen: every key above `threshold` and the first `ties` keys equal to it.
struct Choice {
  unsigned threshold;
  int ties;
};

struct Shared {
  int counts[bins];
  int sums[warps];
  Choice choice;
  int remaining;
};

// Keys of the scores from `own` on, a multiple of 4; 0 behind the end.
__device__ inline void load_keys_at(const float* scores, std::int64_t n, std::int64_t own,
                                    unsigned (&keys)[per_thread]) {
#pragma unroll
  for (int i = 0; i < per_thread; i += 4) {
    if (own + i + 4 <= n) {
      const float4 four = *reinterpret_cast<const float4*>(scores + own + i);
      keys[i] = key_of(four.x);
      keys[i + 1] = key_of(four.y);
      keys[i + 2] = key_of(four.z);
      keys[i + 3] = key_of(four.w);
      continue;
    }
#pragma unroll
    for (int j = i; j < i + 4; ++j) keys[j] = own + j < n ? key_of(scores[own + j]) : 0;
  }
}

// Keys of this thread's consecutive scores in the part of the list that begins at `first`.
__device__ inline void load_keys(const float* scores, std::int64_t n, std::int64_t first,
                                 unsigned (&keys)[per_thread]) {
  load_keys_at(scores, n, first + static_cast<std::int64_t>(threadIdx.x) * per_thread, keys);
}

__device__ inline void clear_counts(Shared& shared) {
  for (int i = threadIdx.x; i < bins; i += threads) shared.counts[i] = 0;
  __syncthreads();
}

// Counts byte `shift / 8` of the keys whose higher bytes equal `prefix`'s.
__device__ inline void count_keys(const unsigned (&keys)[per_thread], unsigned prefix, int shift, Shared& shared) {
#pragma unroll
  for (int i = 0; i < per_thread; ++i) {
    const bool fits = keys[i] != 0 && (shift == 24 || keys[i] >> (shift + 8) == prefix >> (shift + 8));
    // Of the lower bytes, and where few are candidates, most warps have no key to count.
    if (__ballot_sync(full_warp, fits) == 0) continue;
    // Scores are alike, so whole warps meet in one bin: one thread adds for all of them.
    const int bin = fits ? static_cast<int>(keys[i] >> shift & 0xFFU) : bins;
    const unsigned same = __match_any_sync(full_warp, bin);
    if (fits && static_cast<int>(threadIdx.x) % warp_size == __ffs(static_cast<int>(same)) - 1) {
      atomicAdd(&shared.counts[bin], __popc(same));
    }
  }
}

// The same for all keys of the list.
__device__ inline void count_bytes(const float* scores, std::int64_t n, unsigned prefix, int shift, Shared& shared) {
  clear_counts(shared);
  for (std::int64_t first = 0; first < n; first += threads * per_thread) {
    unsigned keys[per_thread];
    load_keys(scores, n, first, keys);
    count_keys(keys, prefix, shift, shared);
  }
  __syncthreads();
}

// Puts the bin of the key that is number `remaining` from above into the threshold, and how many keys of that bin it
// takes into `remaining`; 0 if there are fewer keys. One warp: lane l looks at eight bins, lane 0 at the highest.
__device__ inline void find_bin(const int* counts, unsigned prefix, int shift, Shared& shared) {
  constexpr int own_bins = bins / warp_size;
  const int lane = threadIdx.x, first = bins - 1 - lane * own_bins, wanted = shared.remaining;
  int own = 0;
  for (int i = 0; i < own_bins; ++i) own += counts[first - i];
  int until = own;
  for (int step = 1; step < warp_size; step *= 2) {
    const int other = __shfl_up_sync(full_warp, until, step);
    if (lane >= step) until += other;
  }
  const int all = __shfl_sync(full_warp, until, warp_size - 1);
  __syncwarp();  // all lanes have read what one of them changes
  if (all < wanted) {
    if (lane == 0) shared.remaining = 0;
    return;
  }
  int left = wanted - (until - own), bin = first;
  if (left <= 0 || left > own) return;
  while (counts[bin] < left) left -= counts[bin--];
  shared.remaining = left;
  shared.choice.threshold = prefix | static_cast<unsigned>(bin) << shift;
}

// The sum of the lanes up to this one.
__device__ inline int scan_lanes(int value) {
  const int lane = threadIdx.x % warp_size;
  for (int step = 1; step < warp_size; step *= 2) {
    const int other = __shfl_up_sync(full_warp, value, step);
    if (lane >= step) value += other;
  }
  return value;
}

// Returns the sum of `value` over the threads before this one; `total` gets the sum over all.
__device__ inline int scan(int value, Shared& shared, int& total) {
  static_assert(warps == warp_size, "every warp adds the sums of all");
  const int lane = threadIdx.x % warp_size, warp = threadIdx.x / warp_size;
  const int until = scan_lanes(value);
  __syncthreads();
  if (lane == warp_size - 1) shared.sums[warp] = until;
  __syncthreads();
  const int sum = shared.sums[lane], sums = scan_lanes(sum);
  total = __shfl_sync(full_warp, sums, warp_size - 1);
  return __shfl_sync(full_warp, sums - sum, warp) + until - value;
}

// How many were chosen, and how many equalled the threshold, in the part of the list before this one.
struct Before {
  int taken = 0, ties = 0;
};

// Calls take(position among the chosen, index in this part) for every chosen index, ascending. Returns how many there
// are, those before included.
template <class Take>
__device__ int take_chosen(const float* scores, std::int64_t n, Choice choice, Before before, Shared& shared,
                           const Take& take) {
  int taken = before.taken, ties = before.ties;
  for (std::int64_t first = 0; first < n; first += threads * per_thread) {
    const std::int64_t own = first + static_cast<std::int64_t>(threadIdx.x) * per_thread;
    unsigned keys[per_thread];
    int equal = 0, chosen = 0, total = 0;
    load_keys(scores, n, first, keys);
    for (int i = 0; i < per_thread; ++i) {
      equal += keys[i] != 0 && keys[i] == choice.threshold ? 1 : 0;
    }
    int rank = ties + scan(equal, shared, total);
    ties += total;
    bool is_chosen[per_thread];
    for (int i = 0; i < per_thread; ++i) {
      const bool is_tie = keys[i] != 0 && keys[i] == choice.threshold;
      is_chosen[i] = keys[i] > choice.threshold || (is_tie && rank < choice.ties);
      rank += is_tie ? 1 : 0;
      chosen += is_chosen[i] ? 1 : 0;
    }
    int position = taken + scan(chosen, shared, total);
    taken += total;
    for (int i = 0; i < per_thread; ++i) {
      if (is_chosen[i]) take(position++, static_cast<int>(own + i));
    }
  }
  return taken;
}

// Behind the `taken` chosen entries of a row: unused places, and how many are used.
__device__ inline void store_rest(const IndexWork& work, const IndexSource& row, int taken) {
  for (int i = taken + static_cast<int>(threadIdx.x); i < work.topk; i += threads) row.selected[i] = -1;
  if (threadIdx.x == 0 && row.selected_count != nullptr) *row.selected_count = taken;
}

}  // namespace tandem::gpu::cuda::selection
