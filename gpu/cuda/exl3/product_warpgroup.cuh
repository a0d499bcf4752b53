// The product of product_chunk.cuh by Hopper's warpgroup instruction: warps that decode and warps that multiply.
//
// Shapes   a block takes tiles of 128 outputs x 128 rows. Two consumer warpgroups have 64 outputs each; producer
//          warpgroups decode and start copies.
// Grid     a block a multiprocessor, which takes tiles of all members one after the other, so that the last of them
//          share what is left of the card. While consumers finish one, producers fill stages for the next.
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
#include "gpu/cuda/exl3/warpgroup_walk.cuh"

namespace tandem::gpu::cuda {

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

// Decodes stages of weights; a warp takes two column quads of a half.
template <int bits>
class StageDecoder {
 public:
  __device__ __forceinline__ StageDecoder() : at_(own_pair(), threadIdx.x % 32) {}

  // From now on the groups of this tile are loaded.
  __device__ __forceinline__ void enter(const ProductJob& job, const WarpgroupTile& tile) {
    const std::int64_t half = static_cast<std::int64_t>(2 * tile.block + own_half()) * (job.inputs / exl3_group);
    words_ = static_cast<const std::uint32_t*>(job.members[tile.member].matrix.words) + half * group_words;
  }
  __device__ __forceinline__ void load(int group) {
    next_.load(words_ + static_cast<std::int64_t>(group) * group_words, at_);
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

  const std::uint32_t* words_ = nullptr;
  typename HalfStream<bits>::Place at_;
  HalfStream<bits> next_;
};

// The steps `first`, first + warpgroup_producers, .. of all tiles by one warpgroup.
template <int bits>
__device__ __forceinline__ void produce(const ProductJob& job, const CUtensorMap& rows, WarpgroupMemory& memory,
                                        int first) {
  const int steps = job.inputs / exl3_group;
  WarpgroupTile tile(job, static_cast<int>(blockIdx.x));
  int step = first;
  static_assert(warpgroup_producers <= exl3_block / exl3_group, "no tile has fewer steps");
  StageDecoder<bits> decoder;
  decoder.enter(job, tile);
  const auto load = [&] {
    if (tile.is_there(job)) decoder.load(StepPlace(memory.steps[step]).group());
  };
  load();
  wait_for_earlier_kernels();
  for (StepCount at(first); tile.is_there(job); at.advance(warpgroup_producers)) {
    WarpgroupMemory::Stage& stage = memory.stages[at.stage()];
    StageBarrier& full = memory.full[at.stage()];
    if (at.round() > 0) memory.empty[at.stage()].wait((at.round() - 1) % 2);
    if (threadIdx.x % warpgroup_threads == 0) {
      full.arrive_for(sizeof(stage.rows));
      full.copy_tile(stage.rows, rows, StepPlace(memory.steps[step]).group() * exl3_group, tile.first_row(job));
    }
    const HalfStream<bits> words = decoder.words();
    step += warpgroup_producers;
    if (step >= steps) {
      step -= steps;
      tile = tile.next(job);
      decoder.enter(job, tile);
    }
    load();
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

  // The slice's sums, their scale undone, and what the slices before gave: -0 where there is none. `store` takes
  // (tile, total). Loads of four tiles wait for each other.
  template <class Store>
  __device__ __forceinline__ void finish_plane(const WarpgroupMemory& memory, const StepPlace& place,
                                               const Store& store) const {
    constexpr int near = 4;
    // The chains without a group of a short slice add sums that are zero.
    const float nothing = place.has_empty_chains() ? 0.0f : -0.0f;
    const float* undo = memory.undo[place.slice()] + 2 * (threadIdx.x % 4);
#pragma unroll
    for (int first = 0; first < tiles; first += near) {
      float2 factors[near];
      float4 before[near];
#pragma unroll
      for (int i = 0; i < near; ++i) {
        factors[i] = *reinterpret_cast<const float2*>(undo + 8 * (first + i));
        before[i] = make_float4(-0.0f, -0.0f, -0.0f, -0.0f);
        if (place.slice() > 0) before[i] = memory.totals[first + i][threadIdx.x];
      }
#pragma unroll
      for (int i = 0; i < near; ++i) {
        const float(&v)[4] = plane[first + i];
        store(
            first + i,
            make_float4(before[i].x + (v[0] + nothing) * factors[i].x, before[i].y + (v[1] + nothing) * factors[i].y,
                        before[i].z + (v[2] + nothing) * factors[i].x, before[i].w + (v[3] + nothing) * factors[i].y));
      }
    }
  }

  // A slice with others behind it: their totals wait in shared memory.
  __device__ __forceinline__ void end_slice(WarpgroupMemory& memory, const StepPlace& place) {
    finish_plane(memory, place, [&](int tile, const float4& own) { memory.totals[tile][threadIdx.x] = own; });
    clear_plane();
  }

  // The last one: totals go into rows, of all consumers.
  __device__ __forceinline__ void end_tile(WarpgroupMemory& memory, const StepPlace& place) {
    const int quad = threadIdx.x / 32 % 4, half = threadIdx.x / warpgroup_threads;
    finish_plane(memory, place, [&](int tile, const float4& own) {
      float(&v)[4] = sums[tile];
      v[0] = own.x, v[1] = own.y, v[2] = own.z, v[3] = own.w;
    });
    meet_consumers();  // rows take the place of totals
#pragma unroll
    for (int i = 0; i < 4 * tiles; ++i) memory.sums[sum_place(i / 4, quad, half, i % 4)] = sums[i / 4][i % 4];
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

// The factors of a tile's rows, of all slices: four for each consumer. They are loaded before the first products and
// shared behind them.
class TileUndo {
 public:
  __device__ __forceinline__ TileUndo(const ProductJob& job, const ProductPart& part) {
    static_assert(warpgroup_rows * parts == consumer_threads);
    // Missing rows take another one's.
    const int row = part.first + min(own_row(), part.rows - 1);
    const float* from = job.rotated.undo + static_cast<std::int64_t>(row) * exl3_slices_max;
    factors_ = *reinterpret_cast<const float4*>(from + own_slice());
  }
  __device__ __forceinline__ void share(WarpgroupMemory& memory) const {
    memory.undo[own_slice()][own_row()] = factors_.x;
    memory.undo[own_slice() + 1][own_row()] = factors_.y;
    memory.undo[own_slice() + 2][own_row()] = factors_.z;
    memory.undo[own_slice() + 3][own_row()] = factors_.w;
  }

 private:
  static constexpr int four = 4, parts = exl3_slices_max / four;
  static __device__ __forceinline__ int own_row() { return static_cast<int>(threadIdx.x) / parts; }
  static __device__ __forceinline__ int own_slice() { return static_cast<int>(threadIdx.x) % parts * four; }

  float4 factors_;
};

// The steps of a slice from `step` on into the plane; returns the first one behind it.
__device__ __forceinline__ int multiply_slice(WarpgroupMemory& memory, int step, StepCount& at, const TileUndo& undo,
                                              WarpgroupSums& sums) {
  for (bool adds = false;; ++step) {
    const StepPlace place(memory.steps[step]);
    memory.full[at.stage()].wait(at.round() % 2);
    multiply_stage(memory.stages[at.stage()], sums, adds);
    if (threadIdx.x % 32 == 0) memory.empty[at.stage()].arrive();
    at.advance(1);
    adds = !place.ends_chain();
    if (!adds) sums.end_chain();
    if (!place.ends_slice()) continue;
    if (place.slice() == 0) {
      undo.share(memory);
      meet_consumers();  // and nobody reads rows of the tile before, whose place totals take
    }
    return step + 1;
  }
}

// Half of a row of sums in registers, column 4 * l + i at [i][l / 2 % 2][l / 4 % 4 * 2 + l % 2]: all stages of
// hadamard_128 but the last need no other thread.
struct HalfRow {
  float v[4][2][8];

  __device__ __forceinline__ void load(const float* row) {
#pragma unroll
    for (int i = 0; i < 16; ++i) {
      const float4 four = *reinterpret_cast<const float4*>(row + i / 2 * 16 + i % 2 * 4);
      float* to = &v[i / 4][i / 2 % 2][i % 2 * 4];
      to[0] = four.x, to[1] = four.y, to[2] = four.z, to[3] = four.w;
    }
  }
  __device__ __forceinline__ void store(float* row) const {
#pragma unroll
    for (int i = 0; i < 16; ++i) {
      const float* from = &v[i / 4][i / 2 % 2][i % 2 * 4];
      *reinterpret_cast<float4*>(row + i / 2 * 16 + i % 2 * 4) = make_float4(from[0], from[1], from[2], from[3]);
    }
  }

  // The stage between values whose places differ by `distance`, counted in floats of `v`.
  template <int distance>
  __device__ __forceinline__ void combine() {
    float* values = &v[0][0][0];
#pragma unroll
    for (int i = 0; i < 64; ++i) {
      if ((i & distance) != 0) continue;
      const float a = values[i], b = values[i + distance];
      values[i] = a + b;
      values[i + distance] = a - b;
    }
  }
  // In the order of hadamard_128; the other half is 16 lanes away.
  __device__ __forceinline__ void transform(bool is_second) {
    combine<16>();
    combine<32>();
    combine<1>();
    combine<8>();
    combine<2>();
    combine<4>();
    const float sign = is_second ? -1.0f : 1.0f;
#pragma unroll
    for (int i = 0; i < 64; ++i) {
      float& x = v[i / 16][i / 8 % 2][i % 8];
      x = fmaf(sign, x, __shfl_xor_sync(0xffffffffu, x, 16));
    }
  }
};

// Transforms the rows of a finished tile where they are: a warp 16 of them, a thread half of a row.
inline constexpr int rows_of_warp = 16;
__device__ __forceinline__ void transform_tile(WarpgroupMemory& memory) {
  static_assert(warpgroup_rows == consumer_threads / 2);
  const int lane = threadIdx.x % 32, half = lane / 16;
  float* row = memory.sums + (threadIdx.x / 32 * rows_of_warp + lane % 16) * partial_stride + 8 * half;
  HalfRow values;
  values.load(row);
  values.transform(half == 1);
  values.store(row);
}

// The rows that this warp transformed are scaled and written, four at a time: loads and stores wait for each other.
__device__ __forceinline__ void write_tile(const ProductJob& job, const ProductPart& part, int column,
                                           const OutputScales& scales, const WarpgroupMemory& memory) {
  constexpr int near = 4;
  const int first = threadIdx.x / 32 * rows_of_warp, end = min(first + rows_of_warp, part.rows);
  const float* slots = memory.sums + sum_slot(threadIdx.x % 32);
#pragma unroll 1
  for (int row = first; row < end; row += near) {
    float v[near][4];
#pragma unroll
    for (int i = 0; i < 4 * near; ++i) v[i / 4][i % 4] = slots[(row + i / 4) * partial_stride + i % 4 * 32];
#pragma unroll
    for (float(&own)[4] : v) scales.apply(own);
    store_products(job, part, row, 1, column, v);
  }
}

// All tiles by the consumers.
__device__ __forceinline__ void consume(const ProductJob& job, WarpgroupMemory& memory) {
  wait_for_earlier_kernels();
  const int steps = job.inputs / exl3_group;
  WarpgroupSums sums;
  StepCount at(0);
  for (WarpgroupTile tile(job, static_cast<int>(blockIdx.x)); tile.is_there(job); tile = tile.next(job)) {
    const ProductPart part = tile.part(job);
    const TileUndo undo(job, part);
    __syncwarp();  // products want whole warps, which the compiler does not see behind the rows of the tile before
    const int column = tile.block * exl3_block + 4 * (static_cast<int>(threadIdx.x) % 32);
    const OutputScales scales(part, column);
    sums.clear_plane();  // anew, so that it needs no registers in between
    for (int step = 0;;) {
      step = multiply_slice(memory, step, at, undo, sums);
      if (step == steps) break;
      sums.end_slice(memory, StepPlace(memory.steps[step - 1]));
    }
    sums.end_tile(memory, StepPlace(memory.steps[steps - 1]));
    transform_tile(memory);
    __syncwarp();
    write_tile(job, part, column, scales, memory);
  }
}

inline constexpr int warpgroup_block_threads = (consumer_warpgroups + warpgroup_producers) * warpgroup_threads;

// Registers of a thread after those of producers went to consumers; together what a multiprocessor has.
inline constexpr int consumer_registers = 160, producer_registers = 96;
static_assert(consumer_threads * consumer_registers + warpgroup_producers * warpgroup_threads * producer_registers ==
              65536);

// blockIdx.x: the first of the tiles that a block takes, every gridDim.x-th. Rows are in the order of steps.
template <int bits>
__global__ void __launch_bounds__(warpgroup_block_threads, 1)
    product_warpgroup_kernel(const __grid_constant__ ProductJob job, const __grid_constant__ CUtensorMap rows) {
  extern __shared__ __align__(1024) unsigned char warpgroup_bytes[];
  auto& memory = *reinterpret_cast<WarpgroupMemory*>(warpgroup_bytes);
  let_next_kernel_start();
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
    consume(job, memory);
  } else {
    shrink_registers<producer_registers>();
    const int first = static_cast<int>(threadIdx.x - consumer_threads) / warpgroup_threads;
    produce<bits>(job, rows, memory, first);
  }
}

}  // namespace tandem::gpu::cuda
