// The choice of experts for many rows: a warp a row, as the last block of chain_product.cu does it for few.
//
// Shapes   z [T, experts] FP32, experts up to 512, at most 32 chosen; a block is 4 rows.
// Order    that of route_kernels.cu: ties go to the lower id, the sum of the chosen ascends over the slots.
// Bytes    4 * experts a row.
// Limit    exp and log1p in double precision, one each for a row and expert.
#include "gpu/cuda/choice.cuh"
#include "gpu/cuda/dependent.cuh"

namespace tandem::gpu::cuda {
namespace {

constexpr int choosing_warps = 4;

__global__ void __launch_bounds__(choosing_warps* warp_size) choose_many_kernel(RouteWork work) {
  begin_dependent();
  __shared__ float scores[choosing_warps][choice_experts_max];
  const int warp = static_cast<int>(threadIdx.x) / warp_size, lane = static_cast<int>(threadIdx.x) % warp_size;
  const std::int64_t row = blockIdx.x * std::int64_t{choosing_warps} + warp;
  if (row >= work.products.rows) return;
  const auto experts = static_cast<int>(work.products.cols);
  for (int expert = lane; expert < experts; expert += warp_size) scores[warp][expert] = score_of(work, row, expert);
  __syncwarp();
  choose_in_warp(work, row, scores[warp]);
}

}  // namespace

bool is_choice_of_many(const RouteWork& work) {
  constexpr std::int64_t rows_least = 128;
  return work.products.rows >= rows_least && work.products.cols <= choice_experts_max &&
         work.ids.cols <= choice_slots_max && work.ids.cols <= work.products.cols;
}

cudaError_t choose_many(cudaStream_t stream, const RouteWork& work) {
  const std::int64_t blocks = (work.products.rows + choosing_warps - 1) / choosing_warps;
  return launch_dependent(stream, {dim3(static_cast<unsigned>(blocks)), choosing_warps * warp_size, 1, 0},
                          choose_many_kernel, work);
}

}  // namespace tandem::gpu::cuda
