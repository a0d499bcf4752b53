// The way of a block of product_warpgroup.cuh: which tiles it takes, and the steps of a tile in the order of additions.
#pragma once

#include "gpu/cuda/exl3/product_parts.cuh"
#include "gpu/cuda/exl3/warpgroup.cuh"

namespace tandem::gpu::cuda {

inline constexpr int consumer_warpgroups = 2, consumer_threads = consumer_warpgroups * warpgroup_threads;
inline constexpr int warpgroup_producers = 2;  // warpgroups
inline constexpr int warpgroup_stages = 4, warpgroup_rows = chunk_rows_large;

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

// The tiles, 128 outputs x 128 rows, that a block takes one after the other: the members' column blocks side by side,
// then the next rows.
struct WarpgroupTile {
  int index, member, block, row;  // `block` of the member's outputs, first row

  __device__ __forceinline__ WarpgroupTile(const ProductJob& job, int tile)
      : index(tile), row(tile / job.column_blocks * warpgroup_rows) {
    const int column = tile % job.column_blocks;
    member = min(column / job.member_blocks, job.member_count - 1);
    block = column - member * job.member_blocks;
  }
  __device__ __forceinline__ bool is_there(const ProductJob& job) const { return row < job.rows_most; }
  __device__ __forceinline__ WarpgroupTile next(const ProductJob& job) const {
    return {job, index + static_cast<int>(gridDim.x)};
  }
  __device__ __forceinline__ int first_row(const ProductJob& job) const { return member * job.rows_most + row; }
  __device__ __forceinline__ ProductPart part(const ProductJob& job) const {
    const Exl3Matrix& matrix = job.members[member].matrix;
    ProductPart part{matrix.words, matrix.svh, matrix.bias, first_row(job), min(job.rows_most - row, warpgroup_rows)};
    part.row = row;
    part.member = member;
    return part;
  }
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

}  // namespace tandem::gpu::cuda
