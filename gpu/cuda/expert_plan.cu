// The plan of a mixture of experts: uses (a use is one slot of one row) sorted by expert, cut into tiles.
//
// Shapes   ids [T, slots] -> lists of T * slots uses, tiles, and how many there are; experts up to 1024. One block.
// Order    uses of an expert ascend, whatever the kernel: few uses are counted by a thread an expert, many by 16 warps,
//          each over a stretch of its own, where uses of one expert among 32 find each other by matching.
// Bytes    4 a use read, up to 16 written.
// Limit    latency: some dozen barriers and dependent loads, whatever the uses up to some thousand.
// Plain    gpu/cpu/moe_ops.cpp sums in the row's own slot order: no bit depends on a plan.
#include "gpu/cuda/dependent.cuh"
#include "gpu/cuda/expert_kernels.hpp"
#include "gpu/cuda/lanes.cuh"

namespace tandem::gpu::cuda {
namespace {

struct PlanWork {
  const std::int32_t* ids;
  int uses, slots, experts, tile_rows;
};

constexpr int uses_few = 192;          // from here on stretches are faster
constexpr int near_uses_most = 16384;  // of a plan that keeps the ids in shared memory
constexpr int walkers = 16;            // warps that walk over uses
constexpr int walked_uses_most = 65535;
constexpr int sorted_uses_most = 12288;  // of a plan that is put together in shared memory

// Sum of `value` over the threads before this one. `sums` has a place for each warp and one more, which gets the total.
__device__ int sum_before(int value, std::int32_t* sums) {
  const int lane = threadIdx.x % warp_size, warp = threadIdx.x / warp_size, warps = blockDim.x / warp_size;
  int until = value;
  for (int step = 1; step < warp_size; step *= 2) {
    const int other = __shfl_up_sync(full_warp, until, step);
    if (lane >= step) until += other;
  }
  if (lane == warp_size - 1) sums[warp] = until;
  __syncthreads();
  if (warp == 0) {
    int own = lane < warps ? sums[lane] : 0, all = own;
    for (int step = 1; step < warp_size; step *= 2) {
      const int other = __shfl_up_sync(full_warp, all, step);
      if (lane >= step) all += other;
    }
    __syncwarp();
    if (lane < warps) sums[lane] = all - own;
    if (lane == warps - 1) sums[warps] = all;
  }
  __syncthreads();
  return sums[warp] + until - value;
}

using PlanSums = std::int32_t[2][experts_max / warp_size + 1];

// Thread e has `count` uses of expert e: writes its tiles and returns the place of its first use.
__device__ int place_expert(const PlanWork& work, const ExpertPlan& plan, int count, PlanSums& sums) {
  const int e = threadIdx.x, own_tiles = (count + work.tile_rows - 1) / work.tile_rows;
  const int first = sum_before(count, sums[0]);
  int tile = sum_before(own_tiles, sums[1]);
  const int tiles = sums[1][blockDim.x / warp_size];
  if (e == 0) *plan.tile_count = tiles;
  // Tiles behind the last one have no uses.
  for (std::int64_t t = tiles + e; t < plan.tiles_max; t += blockDim.x) plan.tiles[t] = {0, 0, 0};
  for (int from = 0; from < count; from += work.tile_rows) {
    plan.tiles[tile++] = {e, first + from, count - from < work.tile_rows ? count - from : work.tile_rows};
  }
  return first;
}

// Writes the lists in the order of the plan.
__device__ void list_use(const PlanWork& work, const ExpertPlan& plan, int use, int e, int at) {
  if (plan.source_of_use != nullptr) plan.source_of_use[at] = use / work.slots;
  if (plan.expert_of_use != nullptr) plan.expert_of_use[at] = e;
  plan.uses[at] = use;
}

__device__ void place_use(const PlanWork& work, const ExpertPlan& plan, int use, int e, int at) {
  if (plan.position_of_use != nullptr) plan.position_of_use[use] = at;
  list_use(work, plan, use, e, at);
}

// Thread e counts and lists the uses of expert e.
__global__ void plan_kernel(PlanWork work, ExpertPlan plan) {
  begin_dependent();
  __shared__ PlanSums sums;
  extern __shared__ std::int16_t near_ids[];
  const bool is_near = work.uses <= near_uses_most;
  for (int use = threadIdx.x; is_near && use < work.uses; use += blockDim.x) {
    near_ids[use] = static_cast<std::int16_t>(work.ids[use]);
  }
  __syncthreads();
  const int e = threadIdx.x;
  const auto id = [&](int use) { return is_near ? static_cast<std::int32_t>(near_ids[use]) : work.ids[use]; };
  int count = 0;
#pragma unroll 8
  for (int use = 0; use < work.uses; ++use) count += id(use) == e ? 1 : 0;
  int at = place_expert(work, plan, count, sums);
  const int end = at + count;
  for (int use = 0; at < end; ++use) {
    if (id(use) == e) place_use(work, plan, use, e, at++);
  }
}

// The warp's stretch of uses, ascending: visit(use, expert, place), where place is counts[expert] and one more for
// every use of that expert before. counts are the warp's own; ids of no expert are left out.
template <class Visit>
__device__ void walk(const PlanWork& work, std::uint16_t* counts, const Visit& visit) {
  constexpr int ahead = 4;  // loads in flight
  const int lane = threadIdx.x % warp_size, warp = threadIdx.x / warp_size;
  const int pieces = (work.uses + warp_size - 1) / warp_size, own = (pieces + walkers - 1) / walkers;
  const int begin = warp * own * warp_size;
  const int end = begin + own * warp_size < work.uses ? begin + own * warp_size : work.uses;
  for (int first = begin; first < end; first += ahead * warp_size) {
    int ids[ahead];
#pragma unroll
    for (int a = 0; a < ahead; ++a) {
      const int use = first + a * warp_size + lane, id = use < end ? work.ids[use] : -1;
      ids[a] = id < work.experts ? id : -1;
    }
#pragma unroll
    for (int a = 0; a < ahead; ++a) {
      const unsigned mates = __match_any_sync(full_warp, ids[a]);
      const int before = __popc(mates & ((1U << lane) - 1U)), base = ids[a] >= 0 ? counts[ids[a]] : 0;
      __syncwarp();
      if (ids[a] >= 0 && before == 0) counts[ids[a]] = static_cast<std::uint16_t>(base + __popc(mates));
      __syncwarp();
      if (ids[a] >= 0) visit(first + a * warp_size + lane, ids[a], base + before);
    }
  }
}

// Lists in the order of the plan are put together in shared memory if they fit there: written one by one they would be
// scattered over the device's.
__global__ void __launch_bounds__(experts_max) plan_many_kernel(PlanWork work, ExpertPlan plan) {
  begin_dependent();
  __shared__ PlanSums sums;
  __shared__ std::uint16_t counts[walkers][experts_max];
  __shared__ std::int32_t firsts[experts_max];
  extern __shared__ std::uint32_t sorted[];
  const int e = threadIdx.x, warp = e / warp_size;
  const bool is_near = work.uses <= sorted_uses_most;
#pragma unroll
  for (int w = 0; w < walkers; ++w) counts[w][e] = 0;
  __syncthreads();
  if (warp < walkers) walk(work, counts[warp], [](int, int, int) {});
  __syncthreads();
  int count = 0;
#pragma unroll
  for (int w = 0; w < walkers; ++w) {
    const int own = counts[w][e];
    counts[w][e] = static_cast<std::uint16_t>(count);
    count += own;
  }
  firsts[e] = place_expert(work, plan, count, sums);
  __syncthreads();
  if (warp < walkers) {
    walk(work, counts[warp], [&](int use, int id, int place) {
      const int at = firsts[id] + place;
      if (!is_near) return place_use(work, plan, use, id, at);
      sorted[at] = static_cast<std::uint32_t>(id) << 16 | static_cast<std::uint32_t>(use);
      if (plan.position_of_use != nullptr) plan.position_of_use[use] = at;
    });
  }
  if (!is_near) return;
  __syncthreads();
  for (int at = e; at < sums[0][experts_max / warp_size]; at += experts_max) {
    const std::uint32_t both = sorted[at];
    list_use(work, plan, static_cast<int>(both & 0xFFFFU), static_cast<int>(both >> 16), at);
  }
}

}  // namespace

cudaError_t plan_experts(cudaStream_t stream, const Tensor& ids, int experts, int tile_rows, const ExpertPlan& plan) {
  if (experts > experts_max) return cudaErrorNotSupported;
  const auto uses = static_cast<int>(ids.rows * ids.cols);
  const PlanWork work{static_cast<const std::int32_t*>(ids.data), uses, static_cast<int>(ids.cols), experts, tile_rows};
  if (uses >= uses_few && uses <= walked_uses_most) {
    const std::size_t bytes = uses <= sorted_uses_most ? static_cast<std::size_t>(uses) * sizeof(std::uint32_t) : 0;
    constexpr int bytes_most = sorted_uses_most * 4;
    const cudaError_t status =
        cudaFuncSetAttribute(plan_many_kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes_most);
    if (status != cudaSuccess) return status;
    return launch_dependent(stream, {dim3(1), experts_max, 1, bytes}, plan_many_kernel, work, plan);
  }
  const std::size_t bytes = uses <= near_uses_most ? static_cast<std::size_t>(uses) * sizeof(std::int16_t) : 0;
  const int threads = (experts + warp_size - 1) / warp_size * warp_size;
  return launch_dependent(stream, {dim3(1), threads, 1, bytes}, plan_kernel, work, plan);
}

}  // namespace tandem::gpu::cuda
