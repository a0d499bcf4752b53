// Where each weight of an EXL3 matrix lies in device memory, and how its columns are split over thread blocks.
//
// The checkpoint stores a matrix [inputs, outputs] as 16 x 16 tiles; a tile is one circular stream of 256 windows, K
// fresh bits each (turboderp-org/exllamav3, doc/exl3.md). Window t belongs to tile row 2*(t/8 % 4) + t%2 + 8*(t/2 % 2)
// and tile column t/32 + 8*(t/4 % 2). The kernels read a pure permutation of the same bits, "lane-major":
//
//   group   4 x 4 tiles: 64 inputs x 64 outputs, the unit of one warp's work
//   lane    owns half a tile, 128 windows in a row: 4*K words. Lane 4*g + p takes tile row p of the group, tile column
//           g / 2, half g % 2: outputs 16*(g/2) + 4*(g%2) + {0..3} and those + 8, all 16 inputs of tile row p
//   piece   16 bytes, 4 words. Pieces are ordered [output group][input group][piece 0..K-1][lane 0..31]
//
// So a warp loads 512 contiguous bytes an instruction, every window offset is a compile-time constant, one word per 128
// weights comes from a neighbour (the lane of the other half), and eight windows in a row are exactly one A fragment of
// mma.m16n8k16 with outputs as rows.
#pragma once

#include <cstdint>

namespace tandem::gpu::cuda {

inline constexpr int exl3_tile = 16;
inline constexpr int exl3_group = 64;   // inputs and outputs of a group
inline constexpr int exl3_block = 128;  // a Hadamard block; inputs and outputs are multiples of it
inline constexpr int exl3_bits_max = 8;
inline constexpr int exl3_rows_max = 64;         // rows that one block of a step's kernels takes
inline constexpr int exl3_group_rows_max = 128;  // rows of a group
inline constexpr int exl3_chunk_rows_max = 1 << 20;
// Rows of one product of a Linear: enough to decode each weight once for 128 of them everywhere on a card; their
// rotated form takes 2 bytes an input, 84 MB for four matrices of 5,120 inputs.
inline constexpr int exl3_linear_rows_max = 2048;
inline constexpr int exl3_inputs_max = 16384;
inline constexpr int exl3_slices_max = 8;  // the portable size of a thread block cluster

constexpr std::int64_t exl3_bytes(std::int64_t inputs, std::int64_t outputs, int bits) {
  return inputs * outputs * bits / 8;
}

// How the inputs of a 128-column block are divided: into `slices`, one for each block of a cluster, and those into as
// many chains as there are `warps` along the inputs, which take groups of 64 inputs in turn.
struct Exl3Split {
  int slices = 1;
  int warps = 4;  // 4 or 8
};

// First Hadamard block of slice `slice`; that of slice `slices` is the end.
constexpr int exl3_slice_begin(int inputs, int slices, int slice) {
  return slice * (inputs / exl3_block) / slices;
}

// Place of one 16-byte piece of the checkpoint's layout in the lane-major one. `tile` = tile row * (outputs / 16) +
// tile column; `part` = 0 .. 2*bits-1 inside the tile. Returns the index of the piece.
constexpr std::int64_t exl3_piece(int inputs, int outputs, int bits, std::int64_t tile, int part) {
  const std::int64_t tile_row = tile / (outputs / exl3_tile), tile_column = tile % (outputs / exl3_tile);
  const int half = part / bits, piece = part % bits;
  const int lane = static_cast<int>(8 * (tile_column % 4) + 4 * half + tile_row % 4);
  const std::int64_t group = tile_column / 4 * (inputs / exl3_group) + tile_row / 4;
  return (group * bits + piece) * 32 + lane;
}

// Place of input `i` of a row in its rotated form: inside each group of 64, the 16 bytes at [half of the k-slices]
// [tile row p] hold what lane p of a quad needs for two mma steps. Returns the index of the fp16 value.
constexpr std::int64_t exl3_rotated_index(std::int64_t i) {
  const std::int64_t p = i % 64 / 16, row = i % 16;
  const std::int64_t q = row % 8 / 2;
  return i / 64 * 64 + q / 2 * 32 + p * 8 + q % 2 * 4 + row / 8 * 2 + row % 2;
}

// The same for the warpgroup instruction (warpgroup.cuh), whose k-steps lie one after the other: step q of a group has
// the inputs {2q, 2q + 1, 2q + 8, 2q + 9} of every tile row, as the other kernels' steps do.
constexpr std::int64_t exl3_step_index(std::int64_t i) {
  const std::int64_t p = i % 64 / 16, row = i % 16;
  return i / 64 * 64 + row % 8 / 2 * 16 + row / 8 * 8 + p * 2 + row % 2;
}

// Order of the inputs in rotated rows: exl3_rotated_index or exl3_step_index.
enum class Exl3Order : std::uint8_t { lanes, steps };

constexpr std::int64_t exl3_input_index(Exl3Order order, std::int64_t i) {
  return order == Exl3Order::steps ? exl3_step_index(i) : exl3_rotated_index(i);
}

}  // namespace tandem::gpu::cuda
