// The choice of index_select.cu for long rows: a cluster of blocks a row, each with a part of the scores.
//
// Shapes   n from wide_select_least on, k up to 2048; eight blocks a row.
// Work     every block lists what reaches the guess in its part (index_shortlist.cuh; the guess is the same for all),
//          and the first block gets the lists and chooses. Where they are too long or too short every block counts its
//          part; the counts of all parts are added through the cluster's shared memory, and every block finds the same
//          bin. What a block must know of those before it (how many are chosen, how many equal the threshold) falls
//          out of its own counts.
// Order    integer counts only: the result is that of one block.
// Bytes    4 n, an eighth of it a block, and for each block 32 K of a sample that all share; 5 * 4 n more where no list
//          could be made.
// Limit    memory, and some microseconds of barriers.
// Shared   43 KB a block.
#include "gpu/cuda/dependent.cuh"
#include "gpu/cuda/index_shortlist.cuh"

namespace tandem::gpu::cuda {
namespace {

using namespace selection;

constexpr int parts = 8;  // the portable size of a cluster

// What the blocks of a row know of each other.
struct Part {
  Shared shared;
  int all[bins];   // counts of all parts
  int above;       // keys of this part above the threshold
  int ties;        // equal to it
  int listed;      // scores of this part that reach the guess
  Shortlist list;  // of this part; in the first block of all
};

__device__ void meet() {
  cluster_arrive();
  cluster_wait();
}

// A part of a row's scores.
struct Span {
  const float* scores;
  std::int64_t first, count;
};

// Adds the counts of all parts; nobody may count anew before the second meeting.
__device__ void add_counts(Part& part) {
  meet();
  for (int bin = threadIdx.x; bin < bins; bin += threads) {
    int sum = 0;
    for (int rank = 0; rank < parts; ++rank) sum += read_from_rank(part.shared.counts + bin, rank);
    part.all[bin] = sum;
  }
  meet();
}

__device__ Choice find_wide_threshold(const Span& own, int k, Part& part) {
  Shared& shared = part.shared;
  if (threadIdx.x == 0) {
    shared.remaining = k;
    part.above = 0;
    part.ties = 0;
  }
  unsigned prefix = 0;
  for (int shift = 24; shift >= 0; shift -= 8) {
    count_bytes(own.scores, own.count, prefix, shift, shared);
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
    above += read_from_rank(&part.above, other);
    ties += read_from_rank(&part.ties, other);
  }
  return {above + (ties < choice.ties ? ties : choice.ties), ties};
}

// Puts the lists of all parts one after the other into the first block's. Returns how long that is; 0 in all blocks if
// the best k are not among them.
__device__ int list_wide(const IndexSource& row, const Span& own, int k, int rank, Part& part) {
  const unsigned least = guess_key(row.scores, row.visible, wanted_of(k), part.shared);
  const int listed = shorten(own.scores, own.count, least, part.shared, part.list);
  if (threadIdx.x == 0) part.listed = listed;
  meet();
  int total = 0, before = 0;
  for (int other = 0; other < parts; ++other) {
    const int theirs = read_from_rank(&part.listed, other);
    before += other < rank ? theirs : 0;
    total += theirs;
  }
  if (total < k || total > list_most) return 0;
  for (int i = threadIdx.x; i < listed && rank > 0; i += threads) {
    write_to_rank(reinterpret_cast<const int*>(part.list.scores) + before + i, 0, __float_as_int(part.list.scores[i]));
    write_to_rank(part.list.entries + before + i, 0, static_cast<int>(own.first) + part.list.entries[i]);
  }
  meet();
  return total;
}

__global__ void __launch_bounds__(threads, 2) select_wide_kernel(IndexWork work) {
  begin_dependent();
  extern __shared__ Part part_of_block[];
  Part& part = *part_of_block;
  const IndexSource row = work.rows[blockIdx.y];
  const int rank = static_cast<int>(blockIdx.x);
  const std::int64_t step = (row.visible + parts * per_thread - 1) / (parts * per_thread) * per_thread;
  const std::int64_t first = step * rank < row.visible ? step * rank : row.visible;
  const Span own = {row.scores + first, first, row.visible - first < step ? row.visible - first : step};
  if (row.visible > list_most && work.topk < list_most) {
    const int listed = list_wide(row, own, work.topk, rank, part);
    if (listed > 0) {
      if (rank > 0) return;  // what this block wrote is the first one's own
      const Choice choice = find_threshold(part.list.scores, listed, work.topk, part.shared);
      store_rest(work, row, take_chosen(part.list.scores, listed, choice, {}, part.shared, [&](int position, int at) {
                   row.selected[position] = part.list.entries[at];
                 }));
      return;
    }
  }
  const Choice choice = find_wide_threshold(own, work.topk, part);
  meet();
  const Before before = count_before(part, choice, rank);
  const int taken = take_chosen(own.scores, own.count, choice, before, part.shared, [&](int position, int index) {
    row.selected[position] = static_cast<std::int32_t>(first) + index;
  });
  if (rank == parts - 1) store_rest(work, row, taken);
  meet();  // nobody leaves while its counts may be read
}

}  // namespace

cudaError_t select_wide(cudaStream_t stream, const IndexWork& work) {
  return launch_dependent(stream, {dim3(parts, static_cast<unsigned>(work.row_count)), threads, parts, sizeof(Part)},
                          select_wide_kernel, work);
}

}  // namespace tandem::gpu::cuda
