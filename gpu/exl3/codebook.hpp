// The three codebooks: from a 16-bit state to the weight that it stands for, exactly.
//
//   3INST  x = s * 89226354 + 64248484;  x = (x & 0x8FFF8FFF) ^ 0x3B603B60;  w = RN16(f16(low half) + f16(high half))
//   MCG    x = s * 0xCBAC1FED, then as above
//   MUL1   x = s * 0x83DCD12D;  b = sum of the four bytes of x;  w = RN16((1024 + b) * k + c)
//
// with u32 arithmetic, RN16 = round to nearest even FP16, k = 0.00676727294921875 and c = -10.3828125.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "gpu/exl3/form.hpp"

namespace tandem::gpu::exl3 {

inline constexpr std::size_t states = 65536;

// Multiplier and addend of a codebook's hash; also the marker values of MCG and MUL1.
struct Hash {
  std::uint32_t multiplier = 0;
  std::uint32_t addend = 0;
};
constexpr Hash hash_of(Codebook codebook) noexcept {
  switch (codebook) {
    case Codebook::inst3:
      return {89226354U, 64248484U};
    case Codebook::mcg:
      return {0xCBAC1FEDU, 0U};
    case Codebook::mul1:
      return {0x83DCD12DU, 0U};
  }
  return {};
}
inline constexpr float mul1_step = 0.00676727294921875F;  // FP16 0x1EEE
inline constexpr float mul1_offset = -10.3828125F;        // FP16 0xC931
inline constexpr std::uint32_t half_pair_mask = 0x8FFF8FFFU;
inline constexpr std::uint32_t half_pair_flip = 0x3B603B60U;

// Returns the weight of a state: an FP16 number.
float weight_of(Codebook codebook, std::uint16_t state) noexcept;

// Returns the weights of all 65,536 states; built at the first call, then shared.
std::span<const float> weights_of_states(Codebook codebook);

// "3inst", "mcg", "mul1": names in configurations and of marker tensors (3INST has none).
const char* to_string(Codebook codebook) noexcept;
std::optional<Codebook> parse_codebook(std::string_view name) noexcept;

}  // namespace tandem::gpu::exl3
