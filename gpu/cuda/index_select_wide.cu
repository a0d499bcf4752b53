// The choice of index_select.cu for long rows: a cluster of blocks a row, each with a part of the scores.
//
// Shapes   n from wide_select_least on, k up to 2048; eight blocks a row.
// Work     every block counts its part; the counts of all parts are added through the cluster's shared memory, and
//          every block finds the same bin. What a block must know of those before it (how many are chosen, how many
//          equal the threshold) falls out of its own counts.
// Order    integer counts only: the result is that of one block.
// Bytes    5 * 4 n, an eighth of it a block.
// Limit    memory, and some 20 us of barriers.
#include "gpu/cuda/dependent.cuh"
#include "gpu/cuda/index_select.cuh"

namespace tandem::gpu::cuda {
namespace {

using namespace selection;

constexpr int parts = 8;  // the portable size of a cluster

// What the blocks of a row know of each other.
struct Part {
  Shared shared;
  int all[bins];  // counts of all parts
  int above;      // keys of this part above the threshold
  int ties;       // equal to it
};

// The same variable of block `rank`.
__device__ int read_rank(const int* local, int rank) {
  const auto address = static_cast<std::uint32_t>(__cvta_generic_to_shared(local));
  std::uint32_t remote;
  int value;
  asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(remote) : "r"(address), "r"(rank));
  asm volatile("ld.shared::cluster.s32 %0, [%1];" : "=r"(value) : "r"(remote) : "memory");
  return value;
}

__device__ void meet() {
  cluster_arrive();
  cluster_wait();
}

// Adds the counts of all parts; nobody may count anew before the second meeting.
__device__ void add_counts(Part& part) {
  meet();
  for (int bin = threadIdx.x; bin < bins; bin += threads) {
    int sum = 0;
    for (int rank = 0; rank < parts; ++rank) sum += read_rank(part.shared.counts + bin, rank);
    part.all[bin] = sum;
  }
  meet();
}

__device__ Choice find_wide_threshold(const float* scores, std::int64_t n, int k, Part& part) {
  Shared& shared = part.shared;
  if (threadIdx.x == 0) {
    shared.remaining = k;
    part.above = 0;
    part.ties = 0;
  }
  unsigned prefix = 0;
  for (int shift = 24; shift >= 0; shift -= 8) {
    count_bytes(scores, n, prefix, shift, shared);
    add_counts(part);
    if (threadIdx.x < warp_size) find_bin(part.all, prefix, shift, shared);
    __syncthreads();
    if (shared.remaining == 0) break;  // fewer than k keys: everything is chosen, in every block alike
    prefix = shared.choice.threshold;
    if (threadIdx.x == 0) {
      const int bin = static_cast<int>(prefix >> shift & 0xFFU);
      for (int higher = bin + 1; higher < bins; ++higher) part.above += shared.counts[higher];
      part.ties = shared.counts[bin];
    }
    __syncthreads();
  }
  if (shared.remaining > 0) return {prefix, shared.remaining};
  // Only the first byte was counted: every key that may be chosen is above 0.
  if (threadIdx.x == 0) {
    part.above = 0;
    for (int bin = 0; bin < bins; ++bin) part.above += shared.counts[bin];
    part.ties = 0;
  }
  return {0, 0};
}

__device__ Before count_before(const Part& part, const Choice& choice, int rank) {
  int above = 0, ties = 0;
  for (int other = 0; other < rank; ++other) {
    above += read_rank(&part.above, other);
    ties += read_rank(&part.ties, other);
  }
  return {above + (ties < choice.ties ? ties : choice.ties), ties};
}

__global__ void __launch_bounds__(threads) select_wide_kernel(IndexWork work) {
  begin_dependent();
  __shared__ Part part;
  const IndexSource row = work.rows[blockIdx.y];
  const int rank = static_cast<int>(blockIdx.x);
  const std::int64_t step = (row.visible + parts * per_thread - 1) / (parts * per_thread) * per_thread;
  const std::int64_t first = step * rank < row.visible ? step * rank : row.visible;
  const std::int64_t count = row.visible - first < step ? row.visible - first : step;
  const float* scores = row.scores + first;
  const Choice choice = find_wide_threshold(scores, count, work.topk, part);
  meet();
  const Before before = count_before(part, choice, rank);
  const int taken = take_chosen(scores, count, choice, before, part.shared, [&](int position, int index) {
    row.selected[position] = static_cast<std::int32_t>(first) + index;
  });
  if (rank == parts - 1) {
    for (int i = taken + static_cast<int>(threadIdx.x); i < work.topk; i += threads) row.selected[i] = -1;
    if (threadIdx.x == 0 && row.selected_count != nullptr) *row.selected_count = taken;
  }
  meet();  // nobody leaves while its counts may be read
}

}  // namespace

cudaError_t select_wide(cudaStream_t stream, const IndexWork& work) {
  return launch_dependent(stream, {dim3(parts, static_cast<unsigned>(work.row_count)), threads, parts, 0},
                          select_wide_kernel, work);
}

}  // namespace tandem::gpu::cuda
