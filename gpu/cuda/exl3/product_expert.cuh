// The product of product.cuh for the groups of a chunk, up to 64 rows each, by Hopper's warpgroup instruction: the same
// bits.
//
// Shapes   a block is one warpgroup, 128 outputs and all rows of a group; a warp has 16 outputs of each half.
// Loop     a step is 64 inputs, with one barrier. A warp decodes its outputs into A fragments in its registers, those
//          of a k-step while the two before run; the rows are B, in shared memory. So operands cost no instruction but
//          their decode. Words come to registers two steps ahead, rows by cp.async one step ahead; they lie in the
//          order of steps (layout.hpp).
// Order    as in product_chunk.cuh: one block walks through the chains of every slice in turn, by a list that comes
//          with the launch. `sums` is the chain, `plane` (shared memory, places of its own) the chains of the slice
//          before it, `totals` (local memory) the slices before.
// Bytes    words once a group; rows 2 * inputs a row for every 128 outputs, from the second-level cache; y once.
// Limit    the decode: 290 of some 400 instructions a warp and step (K = 2), counted in the machine code. Three
//          quarters of a block's time are its steps, which use 82 % of the issue slots; ends of chains and slices and
//          the way to rows of y are the rest.
#pragma once

#include <algorithm>

#include "gpu/cuda/exl3/product_parts.cuh"
#include "gpu/cuda/exl3/warpgroup.cuh"

namespace tandem::gpu::cuda {

inline constexpr int expert_halves = exl3_block / exl3_group;  // of a block's outputs
inline constexpr int expert_steps_max = exl3_inputs_max / exl3_group;

// Rows of one group of inputs, as the matrix instruction wants them.
struct ExpertStage {
  unsigned char bytes[exl3_rows_max * operand_row_bytes];
};

// One step in the order of additions: its group of inputs, and what ends with it.
class ExpertStep {
 public:
  static constexpr int chain_end = 1 << 8, slice_end = 1 << 9, first_chain = 1 << 10, empty_chains = 1 << 11;
  static constexpr int last = 1 << 15;

  ExpertStep() = default;
  ExpertStep(int group, int slice, int flags)
      : bits_(static_cast<std::uint16_t>(group | slice << slice_shift | flags)) {}
  __device__ __forceinline__ int group() const { return bits_ & 0xff; }
  __device__ __forceinline__ int slice() const { return bits_ >> slice_shift & (exl3_slices_max - 1); }
  __device__ __forceinline__ bool ends_chain() const { return (bits_ & chain_end) != 0; }
  __device__ __forceinline__ bool ends_slice() const { return (bits_ & slice_end) != 0; }
  __device__ __forceinline__ bool is_first_chain() const { return (bits_ & first_chain) != 0; }
  // Whether the slice has fewer groups than chains: then the other kernels add sums that are zero.
  __device__ __forceinline__ bool has_empty_chains() const { return (bits_ & empty_chains) != 0; }
  __device__ __forceinline__ bool is_last() const { return (bits_ & last) != 0; }

 private:
  static constexpr int slice_shift = 12;
  static_assert(expert_steps_max <= 256 && exl3_slices_max == 8);
  std::uint16_t bits_ = 0;
};

// The steps of a job, an argument of the kernel: the same for all blocks, which read it as they read constants. Chains
// take the groups of a slice in turn.
struct ExpertSteps {
  ExpertStep at[expert_steps_max + 2];  // the last one again at the end

  explicit ExpertSteps(const ProductJob& job) {
    constexpr int groups_a_block = exl3_block / exl3_group;
    int steps = 0;
    for (int slice = 0; slice < job.slices; ++slice) {
      const int first = groups_a_block * exl3_slice_begin(job.inputs, job.slices, slice);
      const int count = groups_a_block * exl3_slice_begin(job.inputs, job.slices, slice + 1) - first;
      const int chains = std::min(job.warps, count);
      for (int chain = 0; chain < chains; ++chain) {
        for (int group = chain; group < count; group += job.warps) {
          const bool ends_chain = group + job.warps >= count, ends_slice = ends_chain && chain + 1 == chains;
          const bool is_last = ends_slice && slice + 1 == job.slices;
          at[steps++] =
              ExpertStep(first + group, slice,
                         (chain == 0 ? ExpertStep::first_chain : 0) | (ends_chain ? ExpertStep::chain_end : 0) |
                             (ends_slice ? ExpertStep::slice_end : 0) | (is_last ? ExpertStep::last : 0) |
                             (count < job.warps ? ExpertStep::empty_chains : 0));
        }
      }
    }
    at[steps] = at[steps + 1] = at[steps - 1];
  }
};

// Shared memory of a block. `sums` takes the place of the stages when the last one has been read.
struct ExpertMemory {
  struct Stages {
    ExpertStage rows[2];
    float4 plane[expert_halves * exl3_rows_max / 8][warpgroup_threads];
  };
  union {
    Stages stages;
    float sums[exl3_rows_max * partial_stride];
  };
  float undo[exl3_slices_max][exl3_rows_max];
};

// The rows of a step: a thread copies the same piece of every 16th row. Rows that are missing stay what they were; no
// sum of another row sees them.
template <int tiles>
class ExpertRows {
 public:
  __device__ __forceinline__ ExpertRows(const ProductJob& job, const ProductPart& part)
      : values_(static_cast<const uint4*>(job.rotated.values) +
                static_cast<std::int64_t>(part.first + own_row()) * (job.inputs / 8) + own_piece()),
        left_(part.rows - own_row()) {}

  __device__ __forceinline__ void start(const ProductJob& job, ExpertStage& tile, int group) const {
    unsigned char* to = tile.bytes + operand_place(own_row(), own_piece());
    const uint4* from = values_ + group * 8;
#pragma unroll
    for (int i = 0; 8 * tiles > row_step * i; ++i) {
      if (row_step * i < left_) copy_async(to + i * row_step * operand_row_bytes, from, true);
      from += row_step * (job.inputs / 8);
    }
  }

 private:
  static constexpr int row_step = warpgroup_threads / 8;
  static __device__ __forceinline__ int own_row() {
    return static_cast<int>(threadIdx.x) / 8;
  }
  static __device__ __forceinline__ int own_piece() {
    return static_cast<int>(threadIdx.x) % 8;
  }

  const uint4* values_;
  int left_;
};

// The words of a warp's outputs, of both halves, for one step.
template <int bits>
struct ExpertWords {
  QuadStream<bits> half[expert_halves];

  // Where they lie in a matrix.
  struct Place {
    std::int64_t half_words;     // from half to half
    const std::uint32_t* words;  // of the block's first half and of group 0
    int quad = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
    typename QuadStream<bits>::Place first;

    __device__ __forceinline__ Place(const ProductJob& job, const ProductPart& part, int block)
        : half_words(static_cast<std::int64_t>(job.inputs / exl3_group) * group_words),
          words(static_cast<const std::uint32_t*>(part.words) + expert_halves * block * half_words),
          first(words, quad, lane) {}
  };

  __device__ __forceinline__ void load(const Place& at, int group) {
#pragma unroll
    for (int i = 0; i < expert_halves; ++i) {
      if constexpr (QuadStream<bits>::has_place) {
        half[i].load_at(at.first, i * static_cast<std::uint32_t>(4 * at.half_words) + 4U * group_words * group);
      } else {
        half[i].load_wide(at.words + i * at.half_words + static_cast<std::int64_t>(group) * group_words, at.quad,
                          at.lane);
      }
    }
  }

 private:
  static constexpr int group_words = bits * 32 * 4;
};

// Fragments of a k-step.
using ExpertFragments = std::uint32_t[expert_halves][4];

template <Exl3Codebook codebook, int bits>
__device__ __forceinline__ void decode_step(const ExpertWords<bits>& words, int q, ExpertFragments& to) {
#pragma unroll
  for (int half = 0; half < expert_halves; ++half) words.half[half].template fragment<codebook>(q, to[half]);
}

__device__ __forceinline__ void copy_fragments(const ExpertFragments& from, ExpertFragments& to) {
#pragma unroll
  for (int i = 0; i < expert_halves * 4; ++i) to[i / 4][i % 4] = from[i / 4][i % 4];
}

// Sums of a warp's outputs: [half][row tile of 8][register].
template <int tiles>
using ExpertSums = float[expert_halves][tiles][4];

template <int tiles>
__device__ __forceinline__ void multiply_step(const ExpertFragments& weights, std::uint64_t rows,
                                              ExpertSums<tiles>& sums) {
  begin_multiply();
#pragma unroll
  for (int half = 0; half < expert_halves; ++half) multiply_fragment(sums[half], weights[half], rows, true);
  end_multiply_stage();
}

template <int tiles>
__device__ __forceinline__ void wait_for_step(ExpertSums<tiles>& sums) {
#pragma unroll
  for (int half = 0; half < expert_halves; ++half) wait_for_multiply(sums[half]);
}

// Adds a chain to the plane and begins the next one.
template <int tiles>
__device__ __forceinline__ void end_chain(ExpertMemory& memory, bool is_first, ExpertSums<tiles>& sums) {
#pragma unroll
  for (int i = 0; i < expert_halves * tiles; ++i) {
    float(&own)[4] = sums[i / tiles][i % tiles];
    float4& plane = memory.stages.plane[i][threadIdx.x];
    float4 sum = make_float4(own[0], own[1], own[2], own[3]);
    if (!is_first) {
      const float4 before = plane;
      sum = make_float4(before.x + sum.x, before.y + sum.y, before.z + sum.z, before.w + sum.w);
    }
    plane = sum;
#pragma unroll
    for (float& value : own) value = 0.0f;
  }
}

// Undoes the slice's scale and adds what the slices before gave. Empty chains add zeros.
template <int tiles>
__device__ __forceinline__ void end_slice(const ExpertMemory& memory, const ExpertStep& step,
                                          float4 (&totals)[expert_halves * tiles]) {
  const float nothing = step.has_empty_chains() ? 0.0f : -0.0f;
#pragma unroll 2
  for (int i = 0; i < expert_halves * tiles; ++i) {
    const float* undo = memory.undo[step.slice()] + 8 * (i % tiles) + 2 * (threadIdx.x % 4);
    const float4 v = memory.stages.plane[i][threadIdx.x];
    float4 own = make_float4((v.x + nothing) * undo[0], (v.y + nothing) * undo[1], (v.z + nothing) * undo[0],
                             (v.w + nothing) * undo[1]);
    if (step.slice() > 0) {
      const float4 before = totals[i];
      own = make_float4(before.x + own.x, before.y + own.y, before.z + own.z, before.w + own.w);
    }
    totals[i] = own;
  }
}

// The totals of all warps as rows.
template <int tiles>
__device__ __forceinline__ void gather_totals(ExpertMemory& memory, const float4 (&totals)[expert_halves * tiles]) {
  __syncthreads();
#pragma unroll 2
  for (int i = 0; i < expert_halves * tiles; ++i) {
    const int half = i / tiles, tile = i % tiles, quad = static_cast<int>(threadIdx.x) / 32;
    const float v[4] = {totals[i].x, totals[i].y, totals[i].z, totals[i].w};
#pragma unroll
    for (int c = 0; c < 4; ++c) memory.sums[sum_place(tile, quad, half, c)] = v[c];
  }
  __syncthreads();
}

// The factors of the rows, for every slice.
__device__ __forceinline__ void load_undo_of_slices(const ProductJob& job, const ProductPart& part,
                                                    ExpertMemory& memory) {
  for (int i = threadIdx.x; i < part.rows * exl3_slices_max; i += warpgroup_threads) {
    const int row = i / exl3_slices_max, slice = i % exl3_slices_max;
    if (slice < job.slices) {
      memory.undo[slice][row] = job.rotated.undo[static_cast<std::int64_t>(part.first) * exl3_slices_max + i];
    }
  }
}

// The first of the four outputs of every row that this thread writes.
__device__ __forceinline__ int write_column(int block) {
  return block * exl3_block + 4 * (static_cast<int>(threadIdx.x) % 32);
}

// The product of one group of at most 8 * tiles rows with 128 outputs, left in memory.sums. Returns the scales of the
// outputs that this thread writes, which are loaded while sums are gathered.
template <int bits, Exl3Codebook codebook, int tiles>
__device__ __forceinline__ uint2 multiply_expert(const ProductJob& job, const ExpertSteps& steps,
                                                 const ProductPart& part, int block, ExpertMemory& memory) {
  const typename ExpertWords<bits>::Place at(job, part, block);
  const ExpertRows<tiles> rows(job, part);
  ExpertWords<bits> words[2];
  ExpertFragments first, second, third;
  ExpertSums<tiles> sums = {};
  float4 totals[expert_halves * tiles];
#pragma unroll
  for (int i = 0; i < 2; ++i) words[i].load(at, steps.at[i].group());
  wait_for_earlier_kernels();
  rows.start(job, memory.stages.rows[0], steps.at[0].group());
  load_undo_of_slices(job, part, memory);
  decode_step<codebook>(words[0], 0, first);
#pragma unroll 1
  for (int step = 0;; ++step) {
    const ExpertStep now = steps.at[step];
    const int next_group = steps.at[step + 1].group(), later_group = steps.at[step + 2].group();
    const std::uint64_t operand = operand_of(&memory.stages.rows[step % 2]);
    wait_for_copies();
    publish_operands();
    __syncthreads();  // this step's rows are complete, and nobody reads those of the step before
    multiply_step<tiles>(first, operand, sums);
    rows.start(job, memory.stages.rows[(step + 1) % 2], next_group);
    decode_step<codebook>(words[0], 1, second);
    multiply_step<tiles>(second, operand + operand_step, sums);
    decode_step<codebook>(words[0], 2, third);
    wait_for_multiply_stages<1>();  // `first` has been read
    multiply_step<tiles>(third, operand + 2 * operand_step, sums);
    decode_step<codebook>(words[0], 3, first);
    words[0] = words[1];
    words[1].load(at, later_group);
    wait_for_multiply_stages<1>();  // `second` has been read
    multiply_step<tiles>(first, operand + 3 * operand_step, sums);
    decode_step<codebook>(words[0], 0, second);
    wait_for_step<tiles>(sums);
    copy_fragments(second, first);
    if (now.ends_chain()) end_chain<tiles>(memory, now.is_first_chain(), sums);
    if (now.ends_slice()) end_slice<tiles>(memory, now, totals);
    if (now.is_last()) break;
  }
  wait_for_copies();
  const uint2 svh = load_scales(part.svh, write_column(block));
  gather_totals<tiles>(memory, totals);
  return svh;
}

// By the number of rows, in few sizes: blocks of every size share a multiprocessor, and the loops of those that a chunk
// has must stay in its instruction cache. With 32 uses an expert nearly all groups have 25 to 48 rows, with 16 or fewer
// up to 24, so that a chunk has one loop. The matrix unit has room for rows that are not there.
template <int bits, Exl3Codebook codebook>
__device__ __forceinline__ void multiply_any_rows(const ProductJob& job, const ExpertSteps& steps,
                                                  const ProductPart& part, int block, ExpertMemory& memory) {
  uint2 svh;
  if (part.rows <= 24) {
    svh = multiply_expert<bits, codebook, 3>(job, steps, part, block, memory);
  } else if (part.rows <= 48) {
    svh = multiply_expert<bits, codebook, 6>(job, steps, part, block, memory);
  } else {
    svh = multiply_expert<bits, codebook, 8>(job, steps, part, block, memory);
  }
  constexpr int near = 2, warps = warpgroup_threads / 32;
  write_rows<near>(job, part, static_cast<int>(threadIdx.x) / 32, warps, write_column(block), svh, memory.sums);
}

// blockIdx.x: column blocks; y: groups, of which a block takes more than one where the grid has fewer; z: tables.
template <int bits, Exl3Codebook codebook>
__global__ void __launch_bounds__(warpgroup_threads, 4)
    product_expert_kernel(const __grid_constant__ ProductJob job, const __grid_constant__ ExpertSteps steps) {
  extern __shared__ __align__(1024) unsigned char expert_bytes[];
  ExpertMemory& memory = *reinterpret_cast<ExpertMemory*>(expert_bytes);
  let_next_kernel_start();
  for (int index = blockIdx.y; index < job.group_count; index += static_cast<int>(gridDim.y)) {
    const ProductPart part = part_of(job, index, bits, codebook);
    if (part.rows == 0) continue;
    multiply_any_rows<bits, codebook>(job, steps, part, static_cast<int>(blockIdx.x), memory);
    __syncthreads();  // the next one has rows and weights of its own
  }
  wait_for_earlier_kernels();  // who finishes before them would let the next kernel overtake them
}

}  // namespace tandem::gpu::cuda
