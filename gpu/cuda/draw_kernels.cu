// The sampler on the device: edits, temperature, top_k, top_p, min_p, draw; or the best token.
//
// Shapes   logits [rows, V], V up to a million; one block a row. Only the token leaves the device.
// Work     a weight is e^((logit - best) / T), its bits as an integer are its rank. A cut "the best k" or "the fewest
//          that hold a mass" is found digit by digit: four histograms of 256 bins, each over the weights that share the
//          digits found so far. Of equal weights the lower ids stay. The draw adds masses in the order of ids.
// Order    masses are integers (gpu/sampling/mass.hpp): sums are exact, and atomics may add them in any order.
// Bytes    4 V in, then 4 V written and read back from the second-level cache: once a pass, up to 12 passes.
// Limit    one block's way to the second-level cache, and histogram bins that many threads add to.
// Plain    gpu/sampling; the test is the same token.
#include <cfloat>

#include "gpu/cuda/dependent.cuh"
#include "gpu/cuda/draw_kernels.hpp"
#include "gpu/cuda/lanes.cuh"
#include "gpu/sampling/mass.hpp"

namespace tandem::gpu::cuda {
namespace {

constexpr int threads = 1024;
constexpr int warps = threads / warp_size;
constexpr int bins = 256;
using Mass = unsigned long long;

struct DrawShared {
  Mass histogram[bins];
  Mass sums[warps + 1];
  float values[warps];
  std::int32_t columns[warps];
  unsigned key;  // of a cut so far
  Mass left;     // that the cut must still find
};

// The tokens that stay: those of a larger weight, and the first `ties` of the weight itself.
struct Cut {
  unsigned key = 0;
  Mass ties = ~Mass{0};
};

__device__ unsigned key_of(float weight) {
  return __float_as_uint(weight);  // weights are not negative: their bits have their order
}

// Sum over all threads before this one; `total` gets that of all.
__device__ Mass sum_before(Mass value, DrawShared& shared, Mass& total) {
  const int lane = static_cast<int>(threadIdx.x) % warp_size, warp = static_cast<int>(threadIdx.x) / warp_size;
  Mass until = value;
  for (int step = 1; step < warp_size; step *= 2) {
    const Mass other = __shfl_up_sync(full_warp, until, step);
    if (lane >= step) until += other;
  }
  __syncthreads();  // nobody reads the sums of a call before
  if (lane == warp_size - 1) shared.sums[warp] = until;
  __syncthreads();
  if (warp == 0) {
    const Mass own = shared.sums[lane];
    Mass all = own;
    for (int step = 1; step < warp_size; step *= 2) {
      const Mass other = __shfl_up_sync(full_warp, all, step);
      if (lane >= step) all += other;
    }
    shared.sums[lane] = all - own;
    if (lane == warp_size - 1) shared.sums[warps] = all;
  }
  __syncthreads();
  total = shared.sums[warps];
  return shared.sums[warp] + until - value;
}
static_assert(warps == warp_size, "one warp adds the sums of all");

// The larger value, of equals the lower column; column -1: none.
__device__ void take_better(float& value, std::int32_t& column, float other, std::int32_t other_column) {
  if (other_column < 0) return;
  if (column >= 0 && !(other > value || (other == value && other_column < column))) return;
  value = other;
  column = other_column;
}

// The best token of the block, known to all.
__device__ void find_best(float& value, std::int32_t& column, DrawShared& shared) {
  const auto reduce = [&] {
    for (int step = warp_size / 2; step > 0; step /= 2) {
      const float other = __shfl_xor_sync(full_warp, value, step);
      const std::int32_t other_column = __shfl_xor_sync(full_warp, column, step);
      take_better(value, column, other, other_column);
    }
  };
  const int lane = static_cast<int>(threadIdx.x) % warp_size, warp = static_cast<int>(threadIdx.x) / warp_size;
  reduce();
  if (lane == 0) {
    shared.values[warp] = value;
    shared.columns[warp] = column;
  }
  __syncthreads();
  value = shared.values[lane];
  column = shared.columns[lane];
  reduce();
}

// Copies the row and edits it. Returns whether it may be drawn from, to all threads.
__device__ bool edit_row(const float* logits, const DrawJob& job, int count, float* work) {
  int is_broken = 0, is_any = 0;
#pragma unroll 4
  for (int i = threadIdx.x; i < count; i += threads) {
    const float value = logits[i];
    is_broken |= value != value || value > FLT_MAX ? 1 : 0;
    is_any |= value >= -FLT_MAX ? 1 : 0;
    work[i] = value;
  }
  is_broken = __syncthreads_or(is_broken);
  is_any = __syncthreads_or(is_any);
  // A token's edits are one thread's, in their order.
  for (int e = threadIdx.x; e < job.edit_count; e += threads) {
    const std::int32_t token = job.edits[e].token;
    if (e > 0 && job.edits[e - 1].token == token) continue;
    float value = work[token];
    for (int next = e; next < job.edit_count && job.edits[next].token == token; ++next) {
      value = edited(job.edits[next], value);
    }
    work[token] = value;
  }
  __syncthreads();
  return is_broken == 0 && is_any != 0;
}

// Finds the bin of one digit: of those with at least `left` in it and the bins above, the highest. One warp.
__device__ void choose_bin(DrawShared& shared, int shift) {
  constexpr int own = bins / warp_size;
  const int lane = static_cast<int>(threadIdx.x);
  // Lane 0 has the highest bins.
  Mass sum = 0;
  for (int i = 0; i < own; ++i) sum += shared.histogram[bins - 1 - lane * own - i];
  Mass until = sum;
  for (int step = 1; step < warp_size; step *= 2) {
    const Mass other = __shfl_up_sync(full_warp, until, step);
    if (lane >= step) until += other;
  }
  Mass above = until - sum;
  const Mass left = shared.left;
  __syncwarp();
  if (above >= left || until < left) return;
  for (int i = 0; i < own; ++i) {
    const int bin = bins - 1 - lane * own - i;
    if (above + shared.histogram[bin] >= left) {
      shared.key |= static_cast<unsigned>(bin) << shift;
      shared.left = left - above;
      return;
    }
    above += shared.histogram[bin];
  }
}

// The largest key such that the tokens of at least that weight amount to `wanted`, which all of them do; `left` is what
// the tokens of that very weight must contribute.
template <class Amount>
__device__ Cut find_cut(const float* weights, int count, Mass wanted, DrawShared& shared, const Amount& amount) {
  if (threadIdx.x == 0) {
    shared.key = 0;
    shared.left = wanted;
  }
  unsigned known = 0;
  for (int shift = 24; shift >= 0; shift -= 8) {
    for (int bin = threadIdx.x; bin < bins; bin += threads) shared.histogram[bin] = 0;
    __syncthreads();
    const unsigned key = shared.key;
    for (int i = threadIdx.x; i < count; i += threads) {
      const unsigned own = key_of(weights[i]);
      if ((own & known) != key) continue;
      const Mass some = amount(weights[i]);
      if (some > 0) atomicAdd(&shared.histogram[own >> shift & (bins - 1)], some);
    }
    __syncthreads();
    if (threadIdx.x < warp_size) choose_bin(shared, shift);
    __syncthreads();
    known |= static_cast<unsigned>(bins - 1) << shift;
  }
  const Cut cut{shared.key, shared.left};
  __syncthreads();
  return cut;
}

// A thread's share of the vocabulary: neighbouring tokens, so that shares follow each other in the order of ids.
struct Share {
  int first, last;
};

__device__ Share own_share(int count) {
  const int each = (count + threads - 1) / threads, first = static_cast<int>(threadIdx.x) * each;
  return {first < count ? first : count, first + each < count ? first + each : count};
}

// Calls body(token, weight) for the tokens of this thread's share that a cut leaves, in the order of ids. `ties_before`
// is the number of tokens of the cut's own weight in earlier shares.
template <class Body>
__device__ void for_each_kept(const float* weights, Share share, Cut cut, Mass ties_before, const Body& body) {
  for (int i = share.first; i < share.last; ++i) {
    const unsigned key = key_of(weights[i]);
    if (key < cut.key) continue;
    if (key == cut.key && ties_before++ >= cut.ties) continue;
    body(i, weights[i]);
  }
}

__device__ Mass ties_before(const float* weights, Share share, Cut cut, DrawShared& shared) {
  Mass own = 0, total = 0;
  for (int i = share.first; i < share.last; ++i) own += key_of(weights[i]) == cut.key ? 1 : 0;
  return sum_before(own, shared, total);
}

// Mass of what a cut leaves, to all threads.
__device__ Mass mass_kept(const float* weights, int count, Cut cut, DrawShared& shared) {
  const Share share = own_share(count);
  const Mass before = ties_before(weights, share, cut, shared);
  Mass own = 0, total = 0;
  for_each_kept(weights, share, cut, before, [&](int, float weight) { own += mass_of(weight); });
  sum_before(own, shared, total);
  return total;
}

__device__ Cut truncate(const float* weights, int count, const DrawJob& job, DrawShared& shared) {
  Cut cut;
  if (job.top_k > 0) {
    cut = find_cut(weights, count, static_cast<Mass>(job.top_k), shared, [](float) { return Mass{1}; });
  }
  if (job.top_p >= 1.0F) return cut;
  const Mass needed = mass_needed(job.top_p, mass_kept(weights, count, cut, shared));
  cut = find_cut(weights, count, needed, shared, [](float weight) { return Mass{mass_of(weight)}; });
  const Mass each = mass_of(__uint_as_float(cut.key));
  cut.ties = (cut.ties + each - 1) / each;
  return cut;
}

__device__ void draw_token(const float* weights, int count, const DrawJob& job, DrawShared& shared,
                           std::int32_t* token) {
  const Cut cut = truncate(weights, count, job, shared);
  const Share share = own_share(count);
  const Mass ties = ties_before(weights, share, cut, shared);
  const auto drawn_from = [&](float weight) {
    return static_cast<double>(weight) >= static_cast<double>(job.min_p) ? Mass{mass_of(weight)} : Mass{0};
  };
  Mass own = 0, total = 0;
  for_each_kept(weights, share, cut, ties, [&](int, float weight) { own += drawn_from(weight); });
  Mass sum = sum_before(own, shared, total);
  const Mass drawn = mass_drawn(job.u, total);
  if (drawn < sum || drawn >= sum + own) return;
  for_each_kept(weights, share, cut, ties, [&](int i, float weight) {
    if (sum <= drawn && sum + drawn_from(weight) > drawn) *token = i;
    sum += drawn_from(weight);
  });
}

__global__ void __launch_bounds__(threads) draw_kernel(DrawCall call) {
  begin_dependent();
  __shared__ DrawShared shared;
  const DrawJob job = call.jobs[blockIdx.x];
  const int count = static_cast<int>(call.logits.cols);
  float* work = row_of(call.work, blockIdx.x);
  std::int32_t* token = call.tokens + blockIdx.x;
  const bool is_usable = edit_row(row_of(call.logits, job.row), job, count, work);
  float most = -FLT_MAX;
  std::int32_t best = -1;
  int is_broken = 0;
#pragma unroll 4
  for (int i = threadIdx.x; i < count; i += threads) {
    is_broken |= work[i] != work[i] ? 1 : 0;
    if (work[i] >= -FLT_MAX) take_better(most, best, work[i], i);  // an infinite logit is a forbidden one
  }
  is_broken = __syncthreads_or(is_broken);
  find_best(most, best, shared);
  if (!is_usable || is_broken != 0 || best < 0 || job.temperature <= 0.0F) {
    if (threadIdx.x == 0) *token = is_usable && is_broken == 0 ? best : -1;
    return;
  }
#pragma unroll 4
  for (int i = threadIdx.x; i < count; i += threads) {
    const float x = (work[i] - most) / job.temperature;
    work[i] = exponential(x != x ? 0.0F : x);  // inf - inf: the best logit overflowed by a penalty
  }
  __syncthreads();
  draw_token(work, count, job, shared, token);
}

}  // namespace

cudaError_t draw(cudaStream_t stream, const DrawCall& call) {
  if (call.logits.cols > std::int64_t{1} << 20) return cudaErrorNotSupported;
  return launch_dependent(stream, {dim3(static_cast<unsigned>(call.work.rows)), threads, 1, 0}, draw_kernel, call);
}

}  // namespace tandem::gpu::cuda
