// The queries of 16 heads for a block of scores, rotated on their way to shared memory.
//
// Loads in two rounds: angles, which are there before the queries are made, and the queries themselves. A thread has
// the same chunk of 8 channels of every head that it loads, so its angles are four pairs in registers.
#pragma once

#include "gpu/cuda/attention_tile.cuh"

namespace tandem::gpu::cuda {

// A thread's part of 16 heads' queries: one chunk of four heads. Its angles are there before the queries are.
template <int threads>
class QueryPart {
 public:
  __device__ QueryPart(const AttendCall& call, int first_head) : call_(call), first_head_(first_head) {
    const RowAngle angle = angle_of_row(call.angles, blockIdx.x);
#pragma unroll
    for (int p = 0; p < 4; ++p) {
      const int at = 8 * chunk() + 2 * p - (wide_dim - 2 * angle.pairs);
      turns_[p] = at >= 0;
      if (at >= 0) cos_[p] = angle.cos[at / 2], sin_[p] = angle.sin[at / 2];
    }
  }

  // Into slabs; zeros for heads that do not exist.
  __device__ void load(unsigned char* queries) const {
    const float* row = row_of(call_.q, blockIdx.x) + static_cast<std::int64_t>(first_head_) * wide_dim;
    float4 values[own_heads][2];
#pragma unroll
    for (int k = 0; k < own_heads; ++k) {
      values[k][0] = values[k][1] = {0, 0, 0, 0};
      if (first_head_ + head(k) >= call_.heads) continue;
      const auto* from = reinterpret_cast<const float4*>(row + head(k) * wide_dim) + 2 * chunk();
      values[k][0] = from[0];
      values[k][1] = from[1];
    }
#pragma unroll
    for (int k = 0; k < own_heads; ++k) {
      const float4 low = values[k][0], high = values[k][1];
      *reinterpret_cast<uint4*>(queries + slab_place(matrix_heads, head(k), chunk())) = {
          word(0, low.x, low.y), word(1, low.z, low.w), word(2, high.x, high.y), word(3, high.z, high.w)};
    }
  }

 private:
  static constexpr int own_heads = matrix_heads * chunks_of_row / threads;
  static __device__ int chunk() {
    return static_cast<int>(threadIdx.x) % chunks_of_row;
  }
  static __device__ int head(int k) {
    return static_cast<int>(threadIdx.x) / chunks_of_row + k * (threads / chunks_of_row);
  }
  __device__ unsigned word(int p, float low, float high) const {
    const float2 value = turned_by(turns_[p], cos_[p], sin_[p], {low, high});
    return packed(round_to_bf16(value.x), round_to_bf16(value.y));
  }

  const AttendCall& call_;
  int first_head_;
  bool turns_[4];
  float cos_[4], sin_[4];
};

}  // namespace tandem::gpu::cuda
