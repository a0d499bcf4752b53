// The EXL3 weight format in one screen: sizes, codebooks and what one packed matrix is told by.
//
// W [in, out] = D(suh) BH What BH D(svh): What holds the decoded tiles of 16 x 16 weights, BH is block diagonal of the
// normalised 128 x 128 Hadamard matrix, suh and svh carry signs and scales of the channels. A tile is a closed walk of
// 256 steps over 16-bit states; step t appends `bits` bits and the state is hashed to one FP16 number by the codebook.
// So a tile takes exactly 256 * bits bits, and there is no other scale and no group.
#pragma once

#include <cstdint>

namespace tandem::gpu::exl3 {

inline constexpr std::int64_t tile_side = 16;    // weights along one side of a tile
inline constexpr int tile_weights = 256;         // = positions of the walk
inline constexpr std::int64_t block_side = 128;  // channels of one Hadamard block; both sides are padded to it
inline constexpr std::int64_t block_tiles = 8;   // tiles along one side of a block
inline constexpr int bits_max = 8;

enum class Codebook : std::uint8_t {
  inst3,  // "3INST": no marker tensor
  mcg,    // marker "mcg", value 0xCBAC1FED
  mul1,   // marker "mul1", value 0x83DCD12D
};

struct Form {
  std::uint8_t bits = 0;  // K, bits per weight, 1 to 8; a property of each matrix
  Codebook codebook = Codebook::mul1;

  bool operator==(const Form&) const = default;
  // 16-bit words of one tile.
  std::int64_t tile_words() const noexcept { return tile_side * bits; }
};

// Channels of a matrix side as the file stores them.
constexpr std::int64_t padded_side(std::int64_t channels) noexcept {
  return (channels + block_side - 1) / block_side * block_side;
}

}  // namespace tandem::gpu::exl3
