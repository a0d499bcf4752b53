// The product of product_chunk.cuh by Hopper's warpgroup instruction: warps that decode and warps that multiply.
//
// Shapes   a block takes tiles of 128 outputs x 128 rows. Two consumer warpgroups have 64 outputs each; producer
//          warpgroups decode and start copies.
// Grid     a block a multiprocessor, which takes tiles one after the other. While consumers finish one, producers fill
//          stages for the next.
// Loop     a step is a group of 64 inputs: 16 KB of weights and 16 KB of rows in a stage of shared memory, both as the
//          instruction reads them. A producer warpgroup takes every producers-th step: it waits until the stage is
//          empty, starts the copy of its rows, decodes, and says that the stage is full. A consumer's stream holds
//          nothing but its products and additions.
// Order    as in product_chunk.cuh: `sums` is the chain, `plane` the chains of the slice before it, `totals` the slices
//          before. The instruction has the bits of mma.sync, with rows in the order of exl3_step_index.
// Bytes    words: inputs * outputs * K / 8 for every 128 rows, rows: 2 * inputs * rows for every 128 outputs, mostly
//          from the second-level cache; y once. 199 KB of shared memory.
// Limit    by count. Clocks of a multiprocessor for a step: 512 of the matrix instruction at its full rate; 640 of the
//          shared memory (8 instructions read 6 KB each, 32 KB are written); issue slots of a quarter: 350 of decode,
//          130 to 200 of waiting and addressing, 128 of additions where every chain is one group.
#pragma once

#include "gpu/cuda/exl3/half_stream.cuh"
#include "gpu/cuda/exl3/product_chunk.cuh"
#include "gpu/cuda/exl3/warpgroup.cuh"

namespace tandem::gpu::cuda {

inline constexpr int consumer_warpgroups = 2, consumer_threads = consumer_warpgroups * warpgroup_threads;
inline constexpr int warpgroup_producers = 2;  // warpgroups
inline constexpr int warpgroup_stages = 4, warpgroup_rows = chunk_rows_large;

// Shared memory of a block.
struct WarpgroupMemory {
  struct Stage {
    __align__(1024) unsigned char weights[2][exl3_group * operand_row_bytes];  // of each half
    __align__(1024) unsigned char rows[warpgroup_rows * operand_row_bytes];
  };
  Stage stages[warpgroup_stages];
  union {
    float4 totals[16][consumer_threads];
    float sums[warpgroup_rows * partial_stride];  // of the rows of a finished tile
  };
  float undo[exl3_slices_max][warpgroup_rows];
  std::uint16_t steps[exl3_inputs_max / exl3_group];  // StepPlace
  StageBarrier full[warpgroup_stages], empty[warpgroup_stages];
};

// A step in the order of additions: its group, and what ends with it. 16 bits, made once a block.
class StepPlace {
 public:
  __device__ __forceinline__ explicit StepPlace(std::uint16_t bits) : bits_(bits) {}
  // Step `i`: the one that GroupWalk comes to i-th.
  __device__ __forceinline__ StepPlace(const ProductJob& job, int i) {
    constexpr int groups_a_block = exl3_block / exl3_group;
    const auto first_of = [&job](int slice) {
      return groups_a_block * exl3_slice_begin(job.inputs, job.slices, slice);
    };
    int slice = 0;
    while (i >= first_of(slice + 1)) ++slice;
    const int first = first_of(slice), groups = first_of(slice + 1) - first, place = i - first;
    // Chains take groups in turn, so the first ones may have one more than the others.
    const int least = groups / job.warps, longer = groups % job.warps, in_longer = longer * (least + 1);
    const bool is_long = place < in_longer;
    const int length = is_long ? least + 1 : least, from = is_long ? place : place - in_longer;
    const int chain = from / length + (is_long ? 0 : longer), round = from % length;
    bits_ = first + chain + round * job.warps + (slice << 8) + (round + 1 == length ? chain_end : 0) +
            (place + 1 == groups ? slice_end : 0) + (groups < job.warps ? empty_chains : 0);
  }
  __device__ __forceinline__ std::uint16_t bits() const { return static_cast<std::uint16_t>(bits_); }
  __device__ __forceinline__ int group() const { return bits_ & 255; }
  __device__ __forceinline__ int slice() const { return bits_ >> 8 & 7; }
  __device__ __forceinline__ bool ends_chain() const { return (bits_ & chain_end) != 0; }
  __device__ __forceinline__ bool ends_slice() const { return (bits_ & slice_end) != 0; }
  __device__ __forceinline__ bool has_empty_chains() const { return (bits_ & empty_chains) != 0; }

 private:
  static constexpr int chain_end = 1 << 11, slice_end = 1 << 12, empty_chains = 1 << 13;
  static_assert(exl3_inputs_max / exl3_group <= 256 && exl3_slices_max <= 8);
  int bits_;
};

// The tiles of a matrix, 128 outputs x 128 rows, that a block takes one after the other.
struct WarpgroupTile {
  int index, block, row;  // `block` of the outputs, first row of the part

  __device__ __forceinline__ WarpgroupTile(const ProductJob& job, int tile)
      : index(tile), block(tile % job.column_blocks), row(tile / job.column_blocks * warpgroup_rows) {}
  __device__ __forceinline__ bool is_there(const ProductPart& part) const { return row < part.rows; }
  __device__ __forceinline__ WarpgroupTile next(const ProductJob& job) const {
    return {job, index + static_cast<int>(gridDim.x)};
  }
};

// Decodes stages of weights; a warp takes two column quads of a half.
template <int bits>
class StageDecoder {
 public:
  __device__ __forceinline__ StageDecoder(const ProductJob& job, const ProductPart& part)
      : words_(static_cast<const std::uint32_t*>(part.words)),
        groups_(job.inputs / exl3_group),
        at_(own_pair(), threadIdx.x % 32) {}

  __device__ __forceinline__ void load(int block, int group) {
    const std::int64_t index = static_cast<std::int64_t>(2 * block + own_half()) * groups_ + group;
    next_.load(words_ + index * group_words, at_);
  }
  // The words that were loaded last, so that others may be loaded meanwhile.
  __device__ __forceinline__ HalfStream<bits> words() const { return next_; }

  static __device__ __forceinline__ void decode(const HalfStream<bits>& words, WarpgroupMemory::Stage& stage) {
#pragma unroll
    for (int run = 0; run < 8; ++run) {
      std::uint32_t a[4];
      words.template fragment<Exl3Codebook::mul1>(run, a);
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
  int groups_;
  typename HalfStream<bits>::Place at_;
  HalfStream<bits> next_;
};

// Where a producer or consumer is in the steps of all tiles of its block.
class StepCount {
 public:
  __device__ __forceinline__ explicit StepCount(int first) : count_(first) {}
  __device__ __forceinline__ int stage() const { return count_ % warpgroup_stages; }
  __device__ __forceinline__ int round() const { return count_ / warpgroup_stages; }
  __device__ __forceinline__ void advance(int by) { count_ += by; }

 private:
  int count_;
};

// The steps `first`, first + warpgroup_producers, .. of all tiles by one warpgroup.
template <int bits>
__device__ __forceinline__ void produce(const ProductJob& job, const CUtensorMap& rows, const ProductPart& part,
                                        WarpgroupMemory& memory, int first) {
  const int steps = job.inputs / exl3_group;
  WarpgroupTile tile(job, static_cast<int>(blockIdx.x));
  int step = first;
  const auto settle = [&] {
    while (step >= steps) {
      step -= steps;
      tile = tile.next(job);
    }
  };
  settle();
  StageDecoder<bits> decoder(job, part);
  if (tile.is_there(part)) decoder.load(tile.block, StepPlace(memory.steps[step]).group());
  wait_for_earlier_kernels();
  for (StepCount at(first); tile.is_there(part); at.advance(warpgroup_producers)) {
    WarpgroupMemory::Stage& stage = memory.stages[at.stage()];
    StageBarrier& full = memory.full[at.stage()];
    if (at.round() > 0) memory.empty[at.stage()].wait((at.round() - 1) % 2);
    if (threadIdx.x % warpgroup_threads == 0) {
      full.arrive_for(sizeof(stage.rows));
      full.copy_tile(stage.rows, rows, StepPlace(memory.steps[step]).group() * exl3_group, part.first + tile.row);
    }
    const HalfStream<bits> words = decoder.words();
    step += warpgroup_producers;
    settle();
    if (tile.is_there(part)) decoder.load(tile.block, StepPlace(memory.steps[step]).group());
    decoder.decode(words, stage);
    publish_operands();
    __syncwarp();
    if (threadIdx.x % 32 == 0) full.arrive();
  }
}

__device__ __forceinline__ void meet_consumers() {
  meet(1, consumer_threads);
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

  // The chains without a group of a short slice add sums that are zero.
  __device__ __forceinline__ void add_empty_chains() {
#pragma unroll
    for (int i = 0; i < 4 * tiles; ++i) plane[i / 4][i % 4] += 0.0f;
  }

  // Undoes the slice's scale and adds what the slices before gave.
  __device__ __forceinline__ void end_slice(WarpgroupMemory& memory, int slice) {
    const float* undo = memory.undo[slice] + 2 * (threadIdx.x % 4);
#pragma unroll
    for (int tile = 0; tile < tiles; ++tile) {
      const float2 factor = *reinterpret_cast<const float2*>(undo + 8 * tile);
      float4& total = memory.totals[tile][threadIdx.x];
      const float(&v)[4] = plane[tile];
      float4 own = make_float4(v[0] * factor.x, v[1] * factor.y, v[2] * factor.x, v[3] * factor.y);
      if (slice > 0) {
        const float4 before = total;
        own = make_float4(before.x + own.x, before.y + own.y, before.z + own.z, before.w + own.w);
      }
      total = own;
    }
    clear_plane();
  }

  // Totals of all consumers from their own places into rows.
  static __device__ __forceinline__ void gather(WarpgroupMemory& memory) {
    const int quad = threadIdx.x / 32 % 4, half = threadIdx.x / warpgroup_threads;
    float4 own[tiles];
#pragma unroll
    for (int tile = 0; tile < tiles; ++tile) own[tile] = memory.totals[tile][threadIdx.x];
    meet_consumers();  // rows take the place of totals
#pragma unroll
    for (int tile = 0; tile < tiles; ++tile) {
      const float v[4] = {own[tile].x, own[tile].y, own[tile].z, own[tile].w};
#pragma unroll
      for (int c = 0; c < 4; ++c) memory.sums[sum_place(tile, quad, half, c)] = v[c];
    }
    meet_consumers();
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

// The factors of a tile's rows, of all slices.
__device__ __forceinline__ void load_undo(const ProductJob& job, const ProductPart& part, WarpgroupMemory& memory) {
  constexpr int four = 4, parts = exl3_slices_max / four;
  static_assert(warpgroup_rows * parts == consumer_threads);
  const int row = threadIdx.x / parts, slice = threadIdx.x % parts * four;
  if (row >= part.rows) return;
  const float* from = job.rotated.undo + static_cast<std::int64_t>(part.first + row) * exl3_slices_max + slice;
  const float4 factors = *reinterpret_cast<const float4*>(from);
  memory.undo[slice][row] = factors.x;
  memory.undo[slice + 1][row] = factors.y;
  memory.undo[slice + 2][row] = factors.z;
  memory.undo[slice + 3][row] = factors.w;
}

// Rows of a finished tile are transformed and written, four at a time: loads, exchanges and stores wait for each other.
__device__ __forceinline__ void write_tile(const ProductJob& job, const ProductPart& part, int column, uint2 svh,
                                           const WarpgroupMemory& memory) {
  constexpr int warps = consumer_threads / 32, near = 4;
  const float* slots = memory.sums + sum_slot(threadIdx.x % 32);
  for (int row = threadIdx.x / 32; row < part.rows; row += near * warps) {
    float v[near][4];
#pragma unroll
    for (int i = 0; i < 4 * near; ++i) v[i / 4][i % 4] = slots[(row + i / 4 * warps) * partial_stride + i % 4 * 32];
#pragma unroll
    for (float(&own)[4] : v) finish_sums(part, column, svh, own);
#pragma unroll
    for (int i = 0; i < near; ++i) {
      if (row + i * warps < part.rows) store_product(job, part, row + i * warps, column, v[i]);
    }
  }
}

// All tiles by the consumers.
__device__ __forceinline__ void consume(const ProductJob& job, const ProductPart& part, WarpgroupMemory& memory) {
  wait_for_earlier_kernels();
  const int steps = job.inputs / exl3_group;
  WarpgroupSums sums;
  StepCount at(0);
  for (WarpgroupTile tile(job, static_cast<int>(blockIdx.x)); tile.is_there(part); tile = tile.next(job)) {
    ProductPart own = part;
    own.first += tile.row;
    own.row += tile.row;
    own.rows = min(part.rows - tile.row, warpgroup_rows);
    load_undo(job, own, memory);
    const int column = tile.block * exl3_block + 4 * (static_cast<int>(threadIdx.x) % 32);
    const uint2 svh = load_scales(part.svh, column);
    meet_consumers();    // and nobody reads rows of the tile before
    sums.clear_plane();  // anew, so that it needs no registers in between
    bool adds = false;
    for (int step = 0; step < steps; ++step) {
      const StepPlace place(memory.steps[step]);
      memory.full[at.stage()].wait(at.round() % 2);
      multiply_stage(memory.stages[at.stage()], sums, adds);
      if (threadIdx.x % 32 == 0) memory.empty[at.stage()].arrive();
      at.advance(1);
      adds = !place.ends_chain();
      if (!adds) sums.end_chain();
      if (place.ends_slice()) {
        if (place.has_empty_chains()) sums.add_empty_chains();
        sums.end_slice(memory, place.slice());
      }
    }
    WarpgroupSums::gather(memory);
    write_tile(job, own, column, svh, memory);
  }
}

inline constexpr int warpgroup_block_threads = (consumer_warpgroups + warpgroup_producers) * warpgroup_threads;

// Registers of a thread after those of producers went to consumers; together what a multiprocessor has.
inline constexpr int consumer_registers = 160, producer_registers = 96;
static_assert(consumer_threads * consumer_registers + warpgroup_producers * warpgroup_threads * producer_registers ==
              65536);

// blockIdx.x: the first of the tiles that a block takes, every gridDim.x-th; y: members. Rows are in the order of
// steps.
template <int bits>
__global__ void __launch_bounds__(warpgroup_block_threads, 1)
    product_warpgroup_kernel(const __grid_constant__ ProductJob job, const __grid_constant__ CUtensorMap rows) {
  extern __shared__ __align__(1024) unsigned char warpgroup_bytes[];
  auto& memory = *reinterpret_cast<WarpgroupMemory*>(warpgroup_bytes);
  let_next_kernel_start();
  const ProductPart part = part_of(job, static_cast<int>(blockIdx.y), bits, Exl3Codebook::mul1);
  for (int i = threadIdx.x; i < job.inputs / exl3_group; i += warpgroup_block_threads) {
    memory.steps[i] = StepPlace(job, i).bits();
  }
  if (threadIdx.x < warpgroup_stages) {
    memory.full[threadIdx.x].open(warpgroup_threads / 32 + 1);  // the warps that decode, and who copies
    memory.empty[threadIdx.x].open(consumer_threads / 32);
    publish_operands();
  }
  __syncthreads();
  if (threadIdx.x < consumer_threads) {
    grow_registers<consumer_registers>();
    consume(job, part, memory);
  } else {
    shrink_registers<producer_registers>();
    const int first = static_cast<int>(threadIdx.x - consumer_threads) / warpgroup_threads;
    produce<bits>(job, rows, part, memory, first);
  }
}

}  // namespace tandem::gpu::cuda
