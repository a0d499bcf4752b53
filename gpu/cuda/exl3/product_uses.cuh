// The product of product.cuh for the experts of a few rows, whose blocks find and rotate their rows themselves.
//
// A step of a few rows waits for the latency of its kernels. A plan, a gate and a rotation take longer as kernels of
// their own than their work takes when every block repeats it.
//
// Uses     blocks of use u serve all uses of its matrix; they have nothing to do if an earlier use has the same one.
// Inputs   row u / slots of x, or h of the use, made of its products with gate and up (gate.cuh).
// Order    rows are rotated as in rotation.cuh; sums are those of product.cuh, a pair of warps for each chain.
// Bytes    inputs * outputs * K / 8 a matrix; ids, inputs and scales from the caches.
// Limit    as product.cuh, behind three loads in a row: ids, the matrix of the table, its words.
// Start    products of gate and up let the next kernel start at their end: until then its blocks would take the places
//          of the shared expert's. That kernel, whose inputs they make, knows the ids already and loads words before it
//          waits.
#pragma once

#include "gpu/cuda/exl3/product.cuh"
#include "gpu/cuda/gate.cuh"

namespace tandem::gpu::cuda {

// Shared memory of a block; the rotated rows lie behind it.
template <int chains>
struct UsesMemory {
  __align__(16) float planes[chains * plane_size<1>];
  __align__(16) float inbox[inbox_size<1>];
  float undo[exl3_use_rows_max];
  std::uint32_t largest[exl3_use_rows_max];
  std::int32_t use_of_row[exl3_use_rows_max];
  std::int32_t rows;
};

// The uses of the matrix of use `own`, ascending, by one warp. Returns their number, 0 if `own` is not the first.
__device__ __forceinline__ int find_uses(const Exl3Uses& uses, int own, std::int32_t* list) {
  const int lane = threadIdx.x % 32;
  const std::int32_t id = __ldcg(uses.ids + own);
  int found = 0;
  bool is_first = true;
  for (int first = 0; first < uses.count; first += 32) {
    const int use = first + lane;
    const bool is_same = use < uses.count && __ldcg(uses.ids + use) == id;
    const unsigned alike = __match_any_sync(0xffffffffu, is_same ? 1 : 0), same = is_same ? alike : ~alike;
    const int place = found + __popc(same & ((1u << lane) - 1u));
    if (is_same && place == 0) is_first = use == own;
    if (is_same && place < exl3_use_rows_max) list[place] = use;
    found += __popc(same);
  }
  is_first = __reduce_max_sync(0xffffffffu, is_first ? 0u : 1u) == 0u;
  return is_first ? min(found, uses.count / uses.slots) : 0;
}

// Columns column .. column + 3 of the input of a use.
__device__ __forceinline__ void load_input(const Exl3Uses& uses, int use, int column, float (&v)[4]) {
  if (uses.x.data != nullptr) return load_four(uses.x, use / uses.slots, column, v);
  float gate[4], up[4];
  load_four(uses.gate.gate, use, column, gate);
  load_four(uses.gate.up, use, column, up);
  const float weight = uses.gate.weights[use];
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const bool is_there = column + i < uses.gate.gate.columns;
    v[i] = is_there ? weighted_gate(gate[i], up[i], uses.gate.limit, weight, uses.gate.rounds) : 0.0f;
  }
}

// Rotates the slice of a use's input by a block of `warps` warps, as SliceRotation does.
template <int warps>
class UseRotation {
 public:
  __device__ __forceinline__ UseRotation(const void* suh, const Slice& slice) : slice_(slice) {
#pragma unroll
    for (int i = 0; i < own_most; ++i) {
      if (task(i) < slice.blocks) suh_[i] = load_scales(suh, column(i));
    }
  }

  // To `out`; `largest` is 0 before. Ends without a barrier.
  __device__ __forceinline__ void run(const Exl3Uses& uses, int use, __half* out, std::uint32_t* largest,
                                      float* undo) const {
    float v[own_most][4];
#pragma unroll
    for (int i = 0; i < own_most; ++i) {
      if (task(i) < slice_.blocks) load_input(uses, use, column(i), v[i]);
    }
#pragma unroll
    for (int i = 0; i < own_most; ++i) {
      if (task(i) < slice_.blocks) transform(suh_[i], v[i], largest);
    }
    __syncthreads();
    const int exponent = scale_exponent(*largest);
#pragma unroll
    for (int i = 0; i < own_most; ++i) {
      const int input = task(i) * exl3_block + 4 * (static_cast<int>(threadIdx.x) % 32);
      if (task(i) < slice_.blocks) store_rotated(out, input, v[i], power_of_two(exponent));
    }
    if (threadIdx.x == 0) *undo = power_of_two(-exponent);
  }

 private:
  static constexpr int own_most = use_blocks_max / warps;
  static __device__ __forceinline__ int task(int i) {
    return static_cast<int>(threadIdx.x) / 32 + i * warps;
  }
  __device__ __forceinline__ int column(int i) const {
    return (slice_.first_block + task(i)) * exl3_block + 4 * (static_cast<int>(threadIdx.x) % 32);
  }
  static __device__ __forceinline__ void transform(uint2 suh, float (&v)[4], std::uint32_t* largest) {
    float scale[4];
    scale_values(suh, scale);
#pragma unroll
    for (int j = 0; j < 4; ++j) v[j] *= scale[j];
    hadamard_128(v, threadIdx.x % 32);
    std::uint32_t mine = 0;
#pragma unroll
    for (float& value : v) {
      value *= hadamard_scale;
      mine = max(mine, __float_as_uint(value) & 0x7fffffffu);
    }
    mine = __reduce_max_sync(0xffffffffu, mine);
    if (threadIdx.x % 32 == 0) atomicMax(largest, mine);
  }

  Slice slice_;
  uint2 suh_[own_most];
};

template <int bits, int chains>
__global__ void __launch_bounds__(64 * chains, 8 / chains) product_uses_kernel(const __grid_constant__ ProductJob job) {
  using Memory = UsesMemory<chains>;
  extern __shared__ __align__(16) unsigned char shared_bytes[];
  Memory& memory = *reinterpret_cast<Memory*>(shared_bytes);
  auto* own_rows = reinterpret_cast<__half*>(shared_bytes + sizeof(Memory));
  const int lane = threadIdx.x % 32, half = threadIdx.x / 32 % 2, pair = threadIdx.x / 64;
  const int own = static_cast<int>(blockIdx.y);
  const bool is_alone = job.uses.count == job.uses.slots, waits_late = job.uses.x.data == nullptr;
  if (threadIdx.x < exl3_use_rows_max) memory.largest[threadIdx.x] = 0;
  if (is_alone && threadIdx.x == 0) {
    memory.use_of_row[0] = own;
    memory.rows = 1;
  }
  __syncthreads();
  if (!waits_late) wait_for_earlier_kernels();
  const Exl3Matrix matrix = job.tables[blockIdx.z][__ldcg(job.uses.ids + own)];
  if (!is_alone) {
    if (threadIdx.x < 32) {
      const int rows = find_uses(job.uses, own, memory.use_of_row);
      if (threadIdx.x == 0) memory.rows = rows;
    }
    __syncthreads();
  }
  if (memory.rows == 0 || matrix.shape.bits != bits || matrix.shape.codebook != Exl3Codebook::mul1) {
    if (waits_late) wait_for_earlier_kernels();
    return;
  }
  Place place = place_of_slice(job);
  place.part = {matrix.words, matrix.svh, matrix.bias, 0, memory.rows, 0, memory.use_of_row};
  if (job.slices > 1) cluster_arrive();

  const uint4* words = words_of<bits>(place, job.inputs, half);
  LanePieces<bits> first = {};
  if (place.first + pair < place.end) first.load(words + static_cast<std::int64_t>(place.first + pair) * bits * 32);
  const uint2 svh = load_scales(matrix.svh, place.block * exl3_block + 4 * lane);
  constexpr int groups_a_block = exl3_block / exl3_group;
  const UseRotation<2 * chains> rotation(
      matrix.suh, {place.first / groups_a_block, (place.end - place.first) / groups_a_block, 1, 0});
  if (waits_late) {
    let_next_kernel_start();
    wait_for_earlier_kernels();
  }
  for (int row = 0; row < memory.rows; ++row) {
    rotation.run(job.uses, memory.use_of_row[row], own_rows + row * job.row_stride, memory.largest + row,
                 memory.undo + row);
  }
  __syncthreads();
  const int g = lane / 4, left = memory.rows - g;
  const __half* row = own_rows + (left > 0 ? g : 0) * job.row_stride;
  const RowPieces rows{reinterpret_cast<const uint4*>(row) + lane % 4, job.row_stride / 8, left, place.first};
  sum_chains<bits, Exl3Codebook::mul1, 1, chains, chains>(place, words, rows, first, memory.planes);
  if (!waits_late) let_next_kernel_start();
  __syncthreads();
  finish_block(job, place, {memory.planes, chains, plane_size<1>, memory.undo, memory.inbox}, svh);
}

}  // namespace tandem::gpu::cuda
