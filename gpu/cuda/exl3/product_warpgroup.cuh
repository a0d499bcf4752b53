// The product of product_chunk.cuh by Hopper's warpgroup instruction: warps that decode and warps that multiply.
//
// Shapes   a block is 128 outputs x 128 rows. Two consumer warpgroups take 64 outputs each; producer warpgroups decode
//          and copy.
// Loop     a step is a group of 64 inputs: 16 KB of weights and 16 KB of rows in a stage of shared memory, both as the
//          instruction reads them. A producer warpgroup takes every producers-th step: it waits until the stage is
//          empty, starts the copy of its rows, decodes, and says that the stage is full. A consumer's stream holds
//          nothing but its products and additions.
// Order    as in product_chunk.cuh: `sums` is the chain, `plane` the chains of the slice before it, `totals` the slices
//          before. The instruction has the bits of mma.sync, with rows in the order of exl3_step_index.
// Bytes    words: inputs * outputs * K / 8 for every 128 rows, rows: 2 * inputs * rows for every 128 outputs, mostly
//          from the second-level cache; y once. 197 KB of shared memory.
// Limit    by count. Clocks of a multiprocessor for a step: 512 of the matrix instruction at its full rate; 640 of
// shared
//          memory (8 instructions read 6 KB each, 32 KB are written); decode of 8,192 weights at the ceiling of
//          BENCHMARKS.md 350 to 400 of the integer pipes.
#pragma once

#include "gpu/cuda/exl3/half_stream.cuh"
#include "gpu/cuda/exl3/product_chunk.cuh"
#include "gpu/cuda/exl3/warpgroup.cuh"

namespace tandem::gpu::cuda {

inline constexpr int consumer_warpgroups = 2, consumer_threads = consumer_warpgroups * warpgroup_threads;
inline constexpr int warpgroup_stages = 4, warpgroup_rows = chunk_rows_large;

// Shared memory of a block. `sums` takes the place of the stages when the last one has been read.
struct WarpgroupMemory {
  struct Stage {
    __align__(1024) unsigned char weights[2][exl3_group * operand_row_bytes];  // of each half
    __align__(1024) unsigned char rows[warpgroup_rows * operand_row_bytes];
  };
  union {
    Stage stages[warpgroup_stages];
    __align__(16) float sums[warpgroup_rows * partial_stride];
  };
  float4 totals[16][consumer_threads];
  float undo[exl3_slices_max][warpgroup_rows];
  StageBarrier full[warpgroup_stages], empty[warpgroup_stages];
};

// A block's matrix and rows.
struct WarpgroupPart {
  ProductPart part;
  int block;  // of 128 outputs
};

// Decodes stages of weights; a warp takes two column quads of a half.
template <int bits>
class StageDecoder {
 public:
  __device__ __forceinline__ StageDecoder(const ProductJob& job, const WarpgroupPart& of)
      : words_(static_cast<const std::uint32_t*>(of.part.words) +
               static_cast<std::int64_t>(2 * of.block + own_half()) * (job.inputs / exl3_group) * group_words),
        at_(own_pair(), threadIdx.x % 32) {}

  __device__ __forceinline__ void load(int group) {
    next_.load(words_ + static_cast<std::int64_t>(group) * group_words, at_);
  }

  // Of the words that were loaded last; those of `group` take their place.
  __device__ __forceinline__ void decode(WarpgroupMemory::Stage& stage, int group) {
    const HalfStream<bits> now = next_;
    load(group);
#pragma unroll
    for (int run = 0; run < 8; ++run) {
      std::uint32_t a[4];
      now.template fragment<Exl3Codebook::mul1>(run, a);
      store_matrices(stage.weights[own_half()] + fragment_place(2 * own_pair() + run / 4, run % 4), a);
    }
  }

 private:
  static constexpr int group_words = bits * 32 * 4;
  static __device__ __forceinline__ int own_half() {
    return static_cast<int>(threadIdx.x) / 32 % 2;
  }
  static __device__ __forceinline__ int own_pair() {
    return static_cast<int>(threadIdx.x) / 64 % 2;
  }

  const std::uint32_t* words_;
  typename HalfStream<bits>::Place at_;
  HalfStream<bits> next_;
};

// The steps `first`, first + producers, .. by one warpgroup.
template <int bits, int producers>
__device__ __forceinline__ void produce(const ProductJob& job, const CUtensorMap& rows, const WarpgroupPart& of,
                                        WarpgroupMemory& memory, int first) {
  StageDecoder<bits> decoder(job, of);
  GroupWalk walk(job);
  for (int i = 0; i < first; ++i) walk.next(job);
  decoder.load(walk.group());
  wait_for_earlier_kernels();
  const int steps = job.inputs / exl3_group;
  for (int step = first; step < steps; step += producers) {
    const int place = step % warpgroup_stages, round = step / warpgroup_stages;
    WarpgroupMemory::Stage& stage = memory.stages[place];
    if (round > 0) memory.empty[place].wait((round - 1) % 2);
    if (threadIdx.x % warpgroup_threads == 0) {
      memory.full[place].arrive_for(sizeof(stage.rows));
      memory.full[place].copy_tile(stage.rows, rows, walk.group() * exl3_group, of.part.first);
    }
#pragma unroll
    for (int i = 0; i < producers; ++i) walk.next(job);
    decoder.decode(stage, walk.group());
    publish_operands();
    __syncwarp();
    if (threadIdx.x % 32 == 0) memory.full[place].arrive();
  }
}

// The three levels of a consumer warp's sums: 16 outputs x 128 rows.
struct WarpgroupSums {
  static constexpr int tiles = warpgroup_rows / 8;
  float sums[tiles][4];   // of this chain
  float plane[tiles][4];  // of this slice, without this chain; -0 before the first, which changes no number

  __device__ __forceinline__ WarpgroupSums() { clear_plane(); }
  __device__ __forceinline__ void clear_plane() {
#pragma unroll
    for (int i = 0; i < 4 * tiles; ++i) plane[i / 4][i % 4] = -0.0f;
  }
  __device__ __forceinline__ void end_chain() {
#pragma unroll
    for (int i = 0; i < 4 * tiles; ++i) plane[i / 4][i % 4] += sums[i / 4][i % 4];
  }

  // Undoes the slice's scale and adds what the slices before gave. `nothing` is what empty chains add.
  __device__ __forceinline__ void end_slice(WarpgroupMemory& memory, int slice, float nothing) {
    const float* undo = memory.undo[slice] + 2 * (threadIdx.x % 4);
#pragma unroll
    for (int tile = 0; tile < tiles; ++tile) {
      const float2 factor = *reinterpret_cast<const float2*>(undo + 8 * tile);
      float4& total = memory.totals[tile][threadIdx.x];
      const float(&v)[4] = plane[tile];
      float4 own = make_float4((v[0] + nothing) * factor.x, (v[1] + nothing) * factor.y, (v[2] + nothing) * factor.x,
                               (v[3] + nothing) * factor.y);
      if (slice > 0) {
        const float4 before = total;
        own = make_float4(before.x + own.x, before.y + own.y, before.z + own.z, before.w + own.w);
      }
      total = own;
    }
    clear_plane();
  }

  // Totals of all consumers, which have read their last stage, from their own places into rows.
  static __device__ __forceinline__ void gather(WarpgroupMemory& memory) {
    const int quad = threadIdx.x / 32 % 4, half = threadIdx.x / warpgroup_threads;
#pragma unroll
    for (int tile = 0; tile < tiles; ++tile) {
      const float4 total = memory.totals[tile][threadIdx.x];
      const float v[4] = {total.x, total.y, total.z, total.w};
#pragma unroll
      for (int c = 0; c < 4; ++c) memory.sums[sum_place(tile, quad, half, c)] = v[c];
    }
  }
};

// One step: the four k-steps of a stage. `adds`: to the sums of the chain, else they begin here.
__device__ __forceinline__ void multiply_stage(const WarpgroupMemory::Stage& stage, WarpgroupSums& sums, bool adds) {
  const std::uint64_t weights = operand_of(stage.weights[threadIdx.x / warpgroup_threads]);
  const std::uint64_t rows = operand_of(stage.rows);
  begin_multiply();
#pragma unroll
  for (int q = 0; q < chunk_k_steps; ++q) {
    multiply_shared(sums.sums, weights + q * operand_step, rows + q * operand_step, adds || q > 0);
  }
  end_multiply_stage();
  wait_for_multiply(sums.sums);
}

// All steps by a consumer warpgroup; its totals then lie in shared memory.
__device__ __forceinline__ void consume(const ProductJob& job, const WarpgroupPart& of, WarpgroupMemory& memory) {
  constexpr int consumers_meet = 1;
  wait_for_earlier_kernels();
  for (int i = threadIdx.x; i < of.part.rows * exl3_slices_max; i += consumer_threads) {
    const int row = i / exl3_slices_max, slice = i % exl3_slices_max;
    if (slice < job.slices) {
      memory.undo[slice][row] = job.rotated.undo[static_cast<std::int64_t>(of.part.first) * exl3_slices_max + i];
    }
  }
  meet(consumers_meet, consumer_threads);
  WarpgroupSums sums;
  GroupWalk now(job);
  bool adds = false;
  const int steps = job.inputs / exl3_group;
  for (int step = 0; step < steps; ++step) {
    const int place = step % warpgroup_stages;
    memory.full[place].wait(step / warpgroup_stages % 2);
    multiply_stage(memory.stages[place], sums, adds);
    if (threadIdx.x % 32 == 0) memory.empty[place].arrive();
    adds = !now.ends_chain(job);
    if (!adds) sums.end_chain();
    if (now.ends_slice(job)) sums.end_slice(memory, now.slice(), now.has_empty_chains(job) ? 0.0f : -0.0f);
    now.next(job);
  }
  meet(consumers_meet, consumer_threads);
  sums.gather(memory);
}

// After everybody's sums lie in shared memory: rows are transformed and written by all warps.
template <int threads>
__device__ __forceinline__ void finish_rows(const ProductJob& job, const WarpgroupPart& of,
                                            const WarpgroupMemory& memory) {
  const int lane = threadIdx.x % 32, column = of.block * exl3_block + 4 * lane;
  const uint2 svh = load_scales(of.part.svh, column);
  __syncthreads();
  for (int row = threadIdx.x / 32; row < of.part.rows; row += threads / 32) {
    const float* slot = memory.sums + row * partial_stride + sum_slot(lane);
    float v[4] = {slot[0], slot[32], slot[64], slot[96]};
    write_row(job, of.part, row, column, svh, v);
  }
}

inline constexpr int warpgroup_producers = 2;

template <int producers>
inline constexpr int warpgroup_block_threads = (consumer_warpgroups + producers) * warpgroup_threads;

// Registers of a thread after those of producers went to consumers; together what a multiprocessor has.
inline constexpr int consumer_registers = 160;
template <int producers>
inline constexpr int producer_registers = (512 - consumer_warpgroups * consumer_registers) / producers / 8 * 8;

// blockIdx.x: column blocks, then blocks of rows; y: members. Rows are in the order of steps.
template <int bits, int producers>
__global__ void __launch_bounds__(warpgroup_block_threads<producers>, 1)
    product_warpgroup_kernel(const __grid_constant__ ProductJob job, const __grid_constant__ CUtensorMap rows) {
  constexpr int threads = warpgroup_block_threads<producers>;
  extern __shared__ __align__(1024) unsigned char warpgroup_bytes[];
  auto& memory = *reinterpret_cast<WarpgroupMemory*>(warpgroup_bytes);
  let_next_kernel_start();
  WarpgroupPart of{part_of(job, static_cast<int>(blockIdx.y), bits, Exl3Codebook::mul1),
                   static_cast<int>(blockIdx.x) % job.column_blocks};
  const int row = static_cast<int>(blockIdx.x) / job.column_blocks * warpgroup_rows;
  of.part.first += row;
  of.part.row += row;
  of.part.rows = min(of.part.rows - row, warpgroup_rows);
  if (threadIdx.x < warpgroup_stages) {
    memory.full[threadIdx.x].open(warpgroup_threads / 32 + 1);  // the warps that decode, and who copies
    memory.empty[threadIdx.x].open(consumer_threads / 32);
    publish_operands();
  }
  __syncthreads();
  if (threadIdx.x < consumer_threads) {
    if constexpr (producers >= 2) grow_registers<consumer_registers>();
    consume(job, of, memory);
    finish_rows<threads>(job, of, memory);
  } else {
    if constexpr (producers >= 2) shrink_registers<producer_registers<producers>>();
    const int first = static_cast<int>(threadIdx.x - consumer_threads) / warpgroup_threads;
    produce<bits, producers>(job, rows, of, memory, first);
    finish_rows<threads>(job, of, memory);
  }
}

}  // namespace tandem::gpu::cuda
