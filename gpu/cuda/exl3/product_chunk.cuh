// The product of product.cuh for whole chunks: each weight is decoded once for 128 (or 64) rows, and every sum has the
// bits that the other kernels give it.
//
// Shapes   a block is 128 outputs x 128 rows (8 warps) or x 64 rows (4 warps), a warp 64 outputs x 32 rows.
// Loop     a step is a group of 64 inputs, with one barrier. While a warp multiplies a step's weights it decodes its
//          share of the next step's into A fragments in shared memory; its words are in registers before that, and
//          cp.async brings rows two steps ahead.
// Order    the other kernels give the chains of a slice to warps and the slices to blocks. Here every warp walks
//          through all of them in turn, and what those add at the end is added in between: `sums` is the chain, `plane`
//          the chains of the slice before it, `totals` (shared memory, places of its own) the slices before. The matrix
//          instruction gets the same operands in the same order, outputs as its rows.
// Bytes    words: inputs * outputs * K / 8 for every 128 rows, rows: 2 * inputs * rows for every 128 outputs, mostly
//          from the second-level cache; y once. 148 KB of shared memory a block, 90 KB one of 64 rows.
// Limit    by count, not measured. Clocks of a Hopper multiprocessor for 128 x 128 sums and 16 inputs: 192 for 128
//          matrix instructions (632 TFLOP/s are one in 6 clocks a quarter); 256 for shared memory (8 warps load 6 x 512
//          bytes each, 4 KB of weights and 4 KB of rows are written, 128 bytes a clock); 8 (K + 1) for the words, which
//          come through the same unit as 4 lines a load. Issue slots of a quarter: 32 matrix instructions, 72 of decode
//          (2,048 weights, 4.5 instructions for 32), 16 loads and stores, at most 32 additions (where every chain is
//          one group): 152. So the first-level memory is the limit, at K = 5 (304 clocks) with 63 % of the rate of the
//          matrix instruction; what barriers and waits take comes off.
//          Blocks of 64 rows decode twice as often: 144 slots of decode beside 192 clocks of matrix instructions. They
//          are for groups of few rows, and for cards whose blocks have 99 KB, where a matrix instruction is slower.
#pragma once

#include "gpu/cuda/exl3/product_parts.cuh"

namespace tandem::gpu::cuda {

inline constexpr int chunk_k_steps = exl3_group / 16;  // of a step
inline constexpr int chunk_row_stages = 3;

using StepWeights = uint4[2][chunk_k_steps][4][32];  // [half][k-step][quad][lane]: A fragments of a step

// Shared memory of a block. `sums` takes the place of the stages when the last one has been read.
template <int row_warps>
struct ChunkMemory {
  static constexpr int rows = 32 * row_warps;
  static constexpr int threads = 64 * row_warps;
  struct Stages {
    StepWeights weights[2];
    uint4 rows[chunk_row_stages][ChunkMemory::rows * 8];
    float4 totals[16][threads];
  };
  union {
    Stages stages;
    __align__(16) float sums[rows * partial_stride];
  };
  float undo[exl3_slices_max][rows];
  bool is_taken[threads];  // of the groups that the block may have to take, its own
};

// The input groups in the order of additions: chain after chain of every slice, and where chains and slices end.
class GroupWalk {
 public:
  __device__ __forceinline__ explicit GroupWalk(const ProductJob& job) { enter(job, 0); }
  __device__ __forceinline__ int slice() const { return slice_; }
  __device__ __forceinline__ int group() const { return group_; }
  __device__ __forceinline__ bool ends_chain(const ProductJob& job) const { return group_ + job.warps >= end_; }
  __device__ __forceinline__ bool ends_slice(const ProductJob& job) const {
    return ends_chain(job) && (chain_ + 1 == job.warps || first_ + chain_ + 1 >= end_);
  }
  // Whether the slice has fewer groups than chains: then the other kernels add sums that are zero.
  __device__ __forceinline__ bool has_empty_chains(const ProductJob& job) const { return end_ - first_ < job.warps; }
  __device__ __forceinline__ void next(const ProductJob& job) {
    if (!ends_chain(job)) {
      group_ += job.warps;
    } else if (!ends_slice(job)) {
      group_ = first_ + ++chain_;
    } else if (slice_ + 1 < job.slices) {
      enter(job, slice_ + 1);
    }
  }

 private:
  __device__ __forceinline__ void enter(const ProductJob& job, int slice) {
    constexpr int groups_a_block = exl3_block / exl3_group;
    slice_ = slice;
    chain_ = 0;
    group_ = first_ = groups_a_block * exl3_slice_begin(job.inputs, job.slices, slice);
    end_ = groups_a_block * exl3_slice_begin(job.inputs, job.slices, slice + 1);
  }

  int slice_, chain_, group_, first_, end_;
};

// The rows of a block, copied group by group. A thread copies the same piece of every 8 * row_warps-th row.
template <int row_warps, int tiles>
class ChunkRows {
 public:
  using Memory = ChunkMemory<row_warps>;

  __device__ __forceinline__ ChunkRows(const ProductJob& job, const ProductPart& part)
      : values_(static_cast<const uint4*>(job.rotated.values) +
                static_cast<std::int64_t>(part.first + own_row()) * (job.inputs / 8) + threadIdx.x % 8),
        left_(part.rows - own_row()) {}

  __device__ __forceinline__ void start(const ProductJob& job, uint4* stage, int group) const {
    uint4* to = stage + place(own_row(), threadIdx.x % 8);
#pragma unroll
    for (int i = 0; i < tiles; ++i) {
      const bool is_there = i * row_step < left_;
      const std::int64_t from = static_cast<std::int64_t>(i * row_step) * (job.inputs / 8) + group * 8;
      copy_async(to + i * row_step * 8, is_there ? values_ + from : job.rotated.values, is_there);
    }
  }

  // What lane 4g + p needs of row g of a row tile for k-steps 2 * half and 2 * half + 1.
  static __device__ __forceinline__ uint4 fragment(const uint4* stage, int tile, int half) {
    const int lane = threadIdx.x % 32;
    return stage[place(8 * tile + lane / 4, 4 * half + lane % 4)];
  }

 private:
  static constexpr int row_step = 8 * row_warps;
  static __device__ __forceinline__ int own_row() {
    return static_cast<int>(threadIdx.x) / 8;
  }
  // Pieces of a row are swizzled so that two rows differ in bank.
  static __device__ __forceinline__ int place(int row, int piece) {
    return row * 8 + (piece ^ (row % 2 * 4));
  }

  const uint4* values_;
  int left_;
};

// A warp's share of the decode: column quads row_warp, row_warp + row_warps, .. of its half.
template <int bits, Exl3Codebook codebook, int row_warps>
class ChunkDecoder {
 public:
  static constexpr int quads = 4 / row_warps;
  // Whether a step's words fit into registers beside those that it decodes.
  static constexpr bool loads_ahead = quads * bits < 10;

  __device__ __forceinline__ ChunkDecoder(const ProductJob& job, const ProductPart& part, int block)
      : words_(static_cast<const std::uint32_t*>(part.words) +
               static_cast<std::int64_t>(2 * block + own_half()) * (job.inputs / exl3_group) * group_words) {}

  __device__ __forceinline__ void load(int group) {
#pragma unroll
    for (int n = 0; n < quads; ++n) {
      streams_[n].load(words_ + static_cast<std::int64_t>(group) * group_words, own_quad(n), threadIdx.x % 32);
    }
  }
  // The warp's fragments of k-step `q`, and their places among those of a step.
  __device__ __forceinline__ void decode(int q, uint4 (&own)[quads]) const {
#pragma unroll
    for (int n = 0; n < quads; ++n) {
      std::uint32_t a[4];
      streams_[n].template fragment<codebook>(q, a);
      own[n] = make_uint4(a[0], a[1], a[2], a[3]);
    }
  }
  static __device__ __forceinline__ void store(int q, const uint4 (&own)[quads], StepWeights& to) {
#pragma unroll
    for (int n = 0; n < quads; ++n) to[own_half()][q][own_quad(n)][threadIdx.x % 32] = own[n];
  }

 private:
  static constexpr int group_words = bits * 32 * 4;
  static __device__ __forceinline__ int own_half() {
    return static_cast<int>(threadIdx.x) / 32 % 2;
  }
  static __device__ __forceinline__ int own_quad(int n) {
    return static_cast<int>(threadIdx.x) / 64 + n * row_warps;
  }

  const std::uint32_t* words_;
  QuadStream<bits> streams_[quads];
};

// The three levels of a warp's sums. Its row tiles are row_warp, row_warp + row_warps, ..
template <int row_warps, int tiles>
struct ChunkSums {
  using Memory = ChunkMemory<row_warps>;
  Sums<tiles> sums;   // of this chain
  Sums<tiles> plane;  // of this slice, without this chain; -0 before the first, which changes no number

  __device__ __forceinline__ ChunkSums() {
    set(sums, 0.0f);
    set(plane, -0.0f);
  }
  static __device__ __forceinline__ void set(Sums<tiles>& to, float value) {
#pragma unroll
    for (int i = 0; i < 16 * tiles; ++i) to[i / (4 * tiles)][i / 4 % tiles][i % 4] = value;
  }

  __device__ __forceinline__ void end_chain() {
#pragma unroll
    for (int quad = 0; quad < 4; ++quad) {
#pragma unroll
      for (int i = 0; i < 4 * tiles; ++i) plane[quad][i / 4][i % 4] += sums[quad][i / 4][i % 4];
    }
    set(sums, 0.0f);
  }

  // Undoes the slice's scale and adds what the slices before gave. `nothing` is what empty chains add.
  __device__ __forceinline__ void end_slice(Memory& memory, int slice, float nothing) {
    const int row_warp = threadIdx.x / 64, p = threadIdx.x % 4;
#pragma unroll
    for (int tile = 0; tile < tiles; ++tile) {
      const float* undo = memory.undo[slice] + 8 * (tile * row_warps + row_warp) + 2 * p;
#pragma unroll
      for (int quad = 0; quad < 4; ++quad) {
        float4& total = memory.stages.totals[quad * tiles + tile][threadIdx.x];
        const float(&v)[4] = plane[quad][tile];
        float4 own = make_float4((v[0] + nothing) * undo[0], (v[1] + nothing) * undo[1], (v[2] + nothing) * undo[0],
                                 (v[3] + nothing) * undo[1]);
        if (slice > 0) {
          const float4 before = total;
          own = make_float4(before.x + own.x, before.y + own.y, before.z + own.z, before.w + own.w);
        }
        total = own;
      }
    }
    set(plane, -0.0f);
  }

  // Totals of all warps from their own places into rows.
  __device__ __forceinline__ void gather(Memory& memory) {
    const int row_warp = threadIdx.x / 64, half = threadIdx.x / 32 % 2;
#pragma unroll
    for (int i = 0; i < 4 * tiles; ++i) {
      const float4 total = memory.stages.totals[i][threadIdx.x];
      float(&v)[4] = plane[i / tiles][i % tiles];
      v[0] = total.x, v[1] = total.y, v[2] = total.z, v[3] = total.w;
    }
    __syncthreads();
#pragma unroll
    for (int i = 0; i < 16 * tiles; ++i) {
      const int quad = i / (4 * tiles), tile = i / 4 % tiles, c = i % 4;
      memory.sums[sum_place(tile * row_warps + row_warp, quad, half, c)] = plane[quad][tile][c];
    }
    __syncthreads();
  }
};

// One step: multiplies the weights of a stage with its rows and decodes the next step's weights in between. What is
// written may lie where the compiler thinks that something is read, so loads come before the stores that they could
// pass.
template <int bits, Exl3Codebook codebook, int row_warps, int tiles>
__device__ __forceinline__ void chunk_step(const ChunkDecoder<bits, codebook, row_warps>& decoder, int step,
                                           typename ChunkMemory<row_warps>::Stages& stages, Sums<tiles>& sums) {
  using Decoder = ChunkDecoder<bits, codebook, row_warps>;
  const int lane = threadIdx.x % 32, half = threadIdx.x / 32 % 2, row_warp = threadIdx.x / 64;
  const uint4* rows = stages.rows[step % chunk_row_stages];
  const auto& weights = stages.weights[step % 2][half];
  constexpr bool loads_early = row_warps == 4;  // small blocks decode more and have no registers left
  uint4 b[2][tiles], next[4];
  const auto load_rows = [&](int j) {
#pragma unroll
    for (int tile = 0; tile < tiles; ++tile) {
      b[j][tile] = ChunkRows<row_warps, tiles>::fragment(rows, tile * row_warps + row_warp, j);
    }
  };
#pragma unroll
  for (int quad = 0; quad < 4; ++quad) next[quad] = weights[0][quad][lane];
  load_rows(0);
  if (loads_early) load_rows(1);
#pragma unroll
  for (int q = 0; q < chunk_k_steps; ++q) {
    if (!loads_early && q == 2) load_rows(1);
    uint4 now[4], own[Decoder::quads];
#pragma unroll
    for (int quad = 0; quad < 4; ++quad) {
      now[quad] = next[quad];
      if (q + 1 < chunk_k_steps) next[quad] = weights[q + 1][quad][lane];
    }
    decoder.decode(q, own);
#pragma unroll
    for (int quad = 0; quad < 4; ++quad) {
      const std::uint32_t a[4] = {now[quad].x, now[quad].y, now[quad].z, now[quad].w};
#pragma unroll
      for (int tile = 0; tile < tiles; ++tile) {
        const uint4& four = b[q / 2][tile];
        multiply_add(sums[quad][tile], a, q % 2 == 0 ? four.x : four.z, q % 2 == 0 ? four.y : four.w);
      }
    }
    Decoder::store(q, own, stages.weights[(step + 1) % 2]);
  }
}

// The product of one block whose rows fill at most `tiles` row tiles of every warp, transformed and written.
template <int bits, Exl3Codebook codebook, int row_warps, int tiles>
__device__ __forceinline__ void multiply_chunk(const ProductJob& job, const ProductPart& part, int block,
                                               ChunkMemory<row_warps>& memory) {
  auto& stages = memory.stages;
  ChunkDecoder<bits, codebook, row_warps> decoder(job, part, block);
  GroupWalk now(job);
  decoder.load(now.group());
#pragma unroll
  for (int q = 0; q < chunk_k_steps; ++q) {
    uint4 own[decltype(decoder)::quads];
    decoder.decode(q, own);
    decoder.store(q, own, stages.weights[0]);
  }
  wait_for_earlier_kernels();
  const ChunkRows<row_warps, tiles> rows(job, part);
  rows.start(job, stages.rows[0], now.group());
  end_copy_stage();
  GroupWalk ahead = now;
  ahead.next(job);
  rows.start(job, stages.rows[1], ahead.group());
  end_copy_stage();
  decoder.load(ahead.group());
  for (int i = threadIdx.x; i < part.rows * exl3_slices_max; i += ChunkMemory<row_warps>::threads) {
    const int row = i / exl3_slices_max, slice = i % exl3_slices_max;
    if (slice < job.slices) {
      memory.undo[slice][row] = job.rotated.undo[static_cast<std::int64_t>(part.first) * exl3_slices_max + i];
    }
  }

  ChunkSums<row_warps, tiles> sums;
  const int steps = job.inputs / exl3_group;
  for (int step = 0; step < steps; ++step) {
    wait_for_copy_stages<1>();
    __syncthreads();  // this step's weights and rows are complete, and nobody reads those of the step before
    ahead.next(job);
    if (step + 2 < steps) rows.start(job, stages.rows[(step + 2) % chunk_row_stages], ahead.group());
    end_copy_stage();
    const ChunkDecoder<bits, codebook, row_warps> next = decoder;
    if (decoder.loads_ahead) decoder.load(ahead.group());
    chunk_step<bits, codebook, row_warps, tiles>(next, step, stages, sums.sums);
    if (!decoder.loads_ahead) decoder.load(ahead.group());
    if (now.ends_chain(job)) sums.end_chain();
    if (now.ends_slice(job)) sums.end_slice(memory, now.slice(), now.has_empty_chains(job) ? 0.0f : -0.0f);
    now.next(job);
  }
  sums.gather(memory);
  const int lane = threadIdx.x % 32, column = block * exl3_block + 4 * lane;
  const uint2 svh = load_scales(part.svh, column);
  if constexpr (row_warps == 4) {
    write_rows<4>(job, part, static_cast<int>(threadIdx.x) / 32, 2 * row_warps, column, svh, memory.sums);
  } else {  // no registers are left for more than one at a time
    for (int row = threadIdx.x / 32; row < part.rows; row += 2 * row_warps) {
      const float* slot = memory.sums + row * partial_stride + sum_slot(lane);
      float v[4] = {slot[0], slot[32], slot[64], slot[96]};
      write_row(job, part, row, column, svh, v);
    }
  }
}

// The product of member or group `index`, if it is this launch's and has rows for this block.
template <int bits, Exl3Codebook codebook, int row_warps>
__device__ __forceinline__ void multiply_part(const ProductJob& job, int index, ChunkMemory<row_warps>& memory) {
  constexpr int block_rows = 32 * row_warps, half_full = 2;
  const int block = static_cast<int>(blockIdx.x) % job.column_blocks;
  const int row = static_cast<int>(blockIdx.x) / job.column_blocks * block_rows;
  ProductPart part = part_of(job, index, bits, codebook);
  part.first += row;
  part.row += row;
  part.rows = min(part.rows - row, block_rows);
  if (part.rows <= 0) return;
  if (row_warps == 2 && part.rows <= 8 * half_full * row_warps) {
    multiply_chunk<bits, codebook, row_warps, half_full>(job, part, block, memory);
  } else {
    multiply_chunk<bits, codebook, row_warps, 4>(job, part, block, memory);
  }
}

// blockIdx.x: column blocks, then blocks of rows; y and z: matrices, as in the other kernels. Groups that only few
// launches have, those of many rows, are looked for by few blocks.
template <int bits, Exl3Codebook codebook, int row_warps>
__global__ void __launch_bounds__(64 * row_warps, 4 / row_warps)
    product_chunk_kernel(const __grid_constant__ ProductJob job) {
  extern __shared__ __align__(16) unsigned char shared_bytes[];
  auto& memory = *reinterpret_cast<ChunkMemory<row_warps>*>(shared_bytes);
  const int count = job.groups == nullptr ? static_cast<int>(gridDim.y) : job.group_count;
  const int stride = static_cast<int>(gridDim.y), thread = static_cast<int>(threadIdx.x);
  let_next_kernel_start();
  for (int first = blockIdx.y; first < count; first += stride * ChunkMemory<row_warps>::threads) {
    const int own = first + thread * stride;
    memory.is_taken[thread] = own < count && part_of(job, own, bits, codebook).rows > 0;
    __syncthreads();
    for (int i = 0; i < ChunkMemory<row_warps>::threads && first + i * stride < count; ++i) {
      if (!memory.is_taken[i]) continue;
      multiply_part<bits, codebook, row_warps>(job, first + i * stride, memory);
      __syncthreads();  // the next one has rows and weights of its own
    }
    __syncthreads();
  }
  wait_for_earlier_kernels();  // who finishes before them would let the next kernel overtake them
}

}  // namespace tandem::gpu::cuda
