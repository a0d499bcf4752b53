// The plain form of the format: bit by bit where it is written, window by window where it is read.
#include "gpu/exl3/tile.hpp"

#include <algorithm>
#include <cassert>

#include "gpu/exl3/codebook.hpp"

namespace tandem::gpu::exl3 {

States unpack_states(std::span<const std::uint16_t> words, int bits) noexcept {
  const auto n = static_cast<std::size_t>(16 * bits);
  assert(words.size() == n);
  // Stream bits in ascending order are 16-bit words with the two halves of every u32 exchanged.
  const auto stream_word = [&](std::size_t i) { return std::uint32_t{words[(i % n) ^ 1U]}; };
  States walk{};
  for (std::size_t t = 0; t < walk.size(); ++t) {
    const std::size_t first = (t + 1) * static_cast<std::size_t>(bits) + 16 * n - 16;  // first stream bit, mod 16 n
    const std::uint32_t pair = stream_word(first / 16) << 16 | stream_word(first / 16 + 1);
    walk[t] = static_cast<std::uint16_t>(pair >> (16 - first % 16));
  }
  return walk;
}

void pack_states(const States& walk, int bits, std::span<std::uint16_t> words) noexcept {
  assert(words.size() == static_cast<std::size_t>(16 * bits));
  std::fill(words.begin(), words.end(), std::uint16_t{0});
  std::size_t at = 0;
  for (const std::uint16_t state : walk) {
    for (int bit = bits - 1; bit >= 0; --bit, ++at) {
      const auto value = static_cast<std::uint16_t>(((state >> bit) & 1U) << (15 - at % 16));
      words[(at / 16) ^ 1U] |= value;
    }
  }
}

bool is_closed_walk(const States& walk, int bits) noexcept {
  std::uint16_t before = walk.back();
  for (const std::uint16_t state : walk) {
    if (static_cast<std::uint16_t>(before << bits) >> bits != state >> bits) return false;
    before = state;
  }
  return true;
}

void decode_tile(std::span<const std::uint16_t> words, Form form, std::span<float, tile_weights> out) noexcept {
  const States walk = unpack_states(words, form.bits);
  for (int t = 0; t < tile_weights; ++t) {
    const Cell cell = cell_of(t);
    out[static_cast<std::size_t>(cell.row * 16 + cell.col)] =
        weight_of(form.codebook, walk[static_cast<std::size_t>(t)]);
  }
}

}  // namespace tandem::gpu::exl3
