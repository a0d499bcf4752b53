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
  alignas(16) int counts[bins];
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
  const std::int64_t own_warp = threadIdx.x / warp_size * std::int64_t{warp_size * per_thread};
  for (std::int64_t first = 0; first + own_warp < n; first += threads * per_thread) {
    unsigned keys[per_thread];
    load_keys(scores, n, first, keys);
    count_keys(keys, prefix, shift, shared);
  }
  __syncthreads();
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

// Puts the bin of the key that is number `remaining` from above into the threshold, and how many keys of that bin it
// takes into `remaining`; 0 if there are fewer keys. One warp: lane l looks at eight bins, lane 0 at the highest.
__device__ inline void find_bin(const int* counts, unsigned prefix, int shift, Shared& shared) {
  constexpr int own_bins = bins / warp_size;
  static_assert(own_bins == 8, "two words of four counts");
  const int lane = threadIdx.x, lowest = bins - (lane + 1) * own_bins, wanted = shared.remaining;
  const auto* words = reinterpret_cast<const int4*>(counts + lowest);
  const int4 low = words[0], high = words[1];
  const int falling[own_bins] = {high.w, high.z, high.y, high.x, low.w, low.z, low.y, low.x};
  int own = 0;
  for (const int count : falling) own += count;
  const int until = scan_lanes(own), all = __shfl_sync(full_warp, until, warp_size - 1);
  __syncwarp();  // all lanes have read what one of them changes
  if (all < wanted) {
    if (lane == 0) shared.remaining = 0;
    return;
  }
  int left = wanted - (until - own);
  if (left <= 0 || left > own) return;
  bool is_found = false;
#pragma unroll
  for (int i = 0; i < own_bins; ++i) {
    if (!is_found && falling[i] >= left) {
      is_found = true;
      shared.remaining = left;
      shared.choice.threshold = prefix | static_cast<unsigned>(lowest + own_bins - 1 - i) << shift;
    }
    left -= falling[i];
  }
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

// How many exceeded the threshold, and how many equalled it, in the part of the list before this one.
struct Before {
  int above = 0, ties = 0;
};

// Calls take(position among the chosen, index in this part) for every chosen index, ascending. Returns how many there
// are, those before included.
template <class Take>
__device__ int take_chosen(const float* scores, std::int64_t n, Choice choice, Before before, Shared& shared,
                           const Take& take) {
  constexpr int step = threads * per_thread, tie = 1 << 16;
  static_assert(step < tie, "keys above the threshold and ties are counted in one number");
  for (std::int64_t first = 0; first < n; first += step) {
    const std::int64_t own = first + static_cast<std::int64_t>(threadIdx.x) * per_thread;
    unsigned keys[per_thread];
    int counts = 0, total = 0;
    load_keys(scores, n, first, keys);
    for (const unsigned key : keys) {
      if (key != 0) counts += key > choice.threshold ? 1 : key == choice.threshold ? tie : 0;
    }
    const int earlier = scan(counts, shared, total);
    int above = before.above + earlier % tie, ties = before.ties + earlier / tie;
    for (int i = 0; i < per_thread && counts != 0; ++i) {
      const bool is_tie = keys[i] == choice.threshold && keys[i] != 0;
      if (keys[i] > choice.threshold || (is_tie && ties < choice.ties)) {
        take(above + (ties < choice.ties ? ties : choice.ties), static_cast<int>(own + i));
      }
      above += keys[i] > choice.threshold ? 1 : 0;
      ties += is_tie ? 1 : 0;
    }
    before.above += total % tie;
    before.ties += total / tie;
  }
  return before.above + (before.ties < choice.ties ? before.ties : choice.ties);
}

}  // namespace tandem::gpu::cuda::selection
