// The choice of the best k of n scores by way of a list that is short enough for shared memory.
//
// A sample guesses a score that some thousand entries reach; one read of all scores lists those. If the list has at
// least k entries the best k are among them, whatever the sample was, and the exact choice (index_select.cuh) reads the
// list alone. If it has fewer, or more than there is room for, the choice reads all scores as it would a short row.
#pragma once

#include "gpu/cuda/index_select.cuh"

namespace tandem::gpu::cuda::selection {

inline constexpr int list_most = 4096;

// Scores are read once, 32 neighbours at a time, and leave a bit each; the few that are listed are read again.
inline constexpr int part_entries = 65536;                    // that have bits at a time
inline constexpr int warp_words = part_entries / 32 / warps;  // of a warp, for neighbouring entries
inline constexpr int words_ahead = 8;                         // reads of a warp that are on their way together
static_assert(warp_words % warp_size == 0 && warp_words % words_ahead == 0);

// Entries that reach the guess, ascending.
struct Shortlist {
  alignas(16) float scores[list_most];
  int entries[list_most];
  unsigned words[warps][warp_words];  // bits of the entries of one part
};

// How many scores a guess is made for where k are chosen: enough that chance does not leave fewer than k.
__device__ inline int wanted_of(int k) {
  const int spare = (list_most - k) / 2;
  return k + (3 * k < spare ? 3 * k : spare);
}

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

// The least score whose key reaches `least`, at least 1: keys below that of the least finite number have no score.
__device__ inline float least_score(unsigned least) {
  constexpr unsigned lowest_key = 0x00800000;
  return score_of_key(least < lowest_key ? lowest_key : least);
}

// Leaves the bits of the warp's entries from `first` on that are `least` or more. Returns how many are set, to all
// lanes.
__device__ inline int mark_entries(const float* scores, std::int64_t n, std::int64_t first, float least,
                                   unsigned (&words)[warp_words]) {
  constexpr int most = warp_words * warp_size;
  const int lane = static_cast<int>(threadIdx.x) % warp_size,
            left = n - first < most ? static_cast<int>(n - first) : most;
  const float* from = scores + first + lane;
  int count = 0;
#pragma unroll 1
  for (int begin = 0; begin < warp_words; begin += words_ahead) {
    float read[words_ahead];
    if ((begin + words_ahead) * warp_size <= left) {
#pragma unroll
      for (int i = 0; i < words_ahead; ++i) read[i] = from[(begin + i) * warp_size];
    } else {
#pragma unroll
      for (int i = 0; i < words_ahead; ++i) {
        const int at = (begin + i) * warp_size;
        read[i] = at + lane < left ? from[at] : -CUDART_INF_F;
      }
    }
    unsigned own = 0;
#pragma unroll
    for (int i = 0; i < words_ahead; ++i) {
      const unsigned word = __ballot_sync(full_warp, read[i] >= least);  // no NaN is, nor -infinity
      if (lane == i) own = word;
    }
    count += __popc(own);
    if (lane < words_ahead) words[begin + lane] = own;
  }
  __syncwarp();
#pragma unroll
  for (int step = words_ahead / 2; step > 0; step /= 2) count += __shfl_xor_sync(full_warp, count, step);
  return __shfl_sync(full_warp, count, 0);
}

// Lists the entries of the warp's bits from place `position` on.
__device__ inline void list_entries(const float* scores, std::int64_t first, int position,
                                    const unsigned (&words)[warp_words], Shortlist& list) {
  const int lane = static_cast<int>(threadIdx.x) % warp_size;
  for (int begin = 0; begin < warp_words; begin += warp_size) {
    unsigned left = words[begin + lane];
    const int until = scan_lanes(__popc(left));
    int at = position + until - __popc(left);
    for (; left != 0; left &= left - 1, ++at) {
      if (at >= list_most) break;
      const std::int64_t entry = first + (begin + lane) * warp_size + __ffs(static_cast<int>(left)) - 1;
      list.scores[at] = score_of_key(key_of(scores[entry]));
      list.entries[at] = static_cast<int>(entry);
    }
    position += __shfl_sync(full_warp, until, warp_size - 1);
  }
  __syncwarp();  // all lanes have read the words that those of the next part replace
}

// Lists the scores whose keys reach `least`, at least 1. Returns how many there are, listed or not.
__device__ inline int shorten(const float* scores, std::int64_t n, unsigned least, Shared& shared, Shortlist& list) {
  const int warp = static_cast<int>(threadIdx.x) / warp_size;
  int listed = 0;
  for (std::int64_t part = 0; part < n && listed <= list_most; part += part_entries) {
    const std::int64_t first = part + warp * (part_entries / warps);
    const int own = first < n ? mark_entries(scores, n, first, least_score(least), list.words[warp]) : 0;
    int total = 0;
    const int before = scan(static_cast<int>(threadIdx.x) % warp_size == 0 ? own : 0, shared, total);
    const int position = listed + __shfl_sync(full_warp, before, 0);
    if (own > 0) list_entries(scores, first, position, list.words[warp], list);
    listed += total;
  }
  __syncthreads();
  return listed;
}

// Calls take(position among the chosen, entry) for the best k, ascending. Returns how many there are.
template <class Take>
__device__ int choose_best(const float* scores, std::int64_t n, int k, Shared& shared, Shortlist& list,
                           const Take& take) {
  if (n > list_most && k < list_most) {
    const unsigned least = guess_key(scores, n, wanted_of(k), shared);
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
