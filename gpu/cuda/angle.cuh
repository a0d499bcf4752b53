// Angle: the rotation of a head's last channels, one channel at a time.
//
// Channels 2k and 2k + 1 of the rotated part are one complex number; products and sums are rounded one by one as the
// reference does, so every kernel that rotates gives the bits of Ops::rope.
#pragma once

#include "gpu/cuda/attention_kernels.hpp"
#include "gpu/cuda/lanes.cuh"

namespace tandem::gpu::cuda {

// The angles of one row; pairs == 0: nothing is rotated.
struct RowAngle {
  const float* cos = nullptr;
  const float* sin = nullptr;
  int pairs = 0;
};

__device__ inline RowAngle angle_of_row(const RowAngles& angles, std::int64_t row) {
  if (angles.pairs == 0) return {};
  const std::int64_t first = angles.positions[row] * angles.pairs;
  return {angles.cos + first, angles.sin + first, angles.pairs};
}

// Whether any channel from `channel` on is rotated, in a head of `dim` channels.
__device__ inline bool is_rotated(const RowAngle& angle, int channel, int dim) {
  return channel >= dim - 2 * angle.pairs;
}

// Channel `channel` after the rotation; `other` is the value of its partner, channel ^ 1. dim is even.
__device__ inline float rotated(const RowAngle& angle, int channel, int dim, float own, float other, bool inverse) {
  const int at = channel - (dim - 2 * angle.pairs);
  if (at < 0) return own;
  const float c = angle.cos[at / 2], s = inverse ? -angle.sin[at / 2] : angle.sin[at / 2];
  return at % 2 == 0 ? own * c - other * s : other * s + own * c;
}

}  // namespace tandem::gpu::cuda
