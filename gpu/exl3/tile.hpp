// One tile: packed words, the 256 states of its walk, and where each of them lies in the 16 x 16 matrix.
//
// The words hold one circular stream of 256 * bits bits: seen as little-endian u32 words, the first word first, each
// word from its most significant bit. State t is the 16 stream bits that end with the `bits` fresh bits of step t, so
// the first states reach around to the end of the tile. Positions follow the B operand of the 16 x 8 x 16 tensor core
// product: lane t / 8 of a warp owns positions t.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "gpu/exl3/form.hpp"

namespace tandem::gpu::exl3 {

using States = std::array<std::uint16_t, tile_weights>;

// Row (input) and column (output) of stream position t inside the tile.
struct Cell {
  int row = 0;
  int col = 0;
};
constexpr Cell cell_of(int t) noexcept {
  const int lane = t / 8, j = t % 8;
  return {2 * (lane % 4) + (j & 1) + 8 * ((j >> 1) & 1), lane / 4 + 8 * (j >> 2)};
}
constexpr int position_of(Cell cell) noexcept {
  const int lane = 4 * (cell.col % 8) + cell.row % 8 / 2;
  return 8 * lane + (cell.row & 1) + 2 * (cell.row / 8) + 4 * (cell.col / 8);
}

// Returns the states of a packed tile; words.size() == 16 * bits, bits 1 to 8.
States unpack_states(std::span<const std::uint16_t> words, int bits) noexcept;

// Packs the low `bits` bits of every state; the inverse of unpack_states for states that form a closed walk
// (is_closed_walk).
void pack_states(const States& walk, int bits, std::span<std::uint16_t> words) noexcept;

// True if every state continues the one before it, the first one the last one.
bool is_closed_walk(const States& walk, int bits) noexcept;

// Decodes a tile: out[row * 16 + col], row = input, col = output.
void decode_tile(std::span<const std::uint16_t> words, Form form, std::span<float, tile_weights> out) noexcept;

}  // namespace tandem::gpu::exl3
