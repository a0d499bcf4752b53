// Both kinds of hash in scalar code; gpu/cpu/exl3_decode.cpp has the vector form and is compared with this one.
#include "gpu/exl3/codebook.hpp"

#include <array>
#include <memory>
#include <vector>

#include "gpu/numeric/bf16.hpp"
#include "gpu/numeric/minifloat.hpp"

namespace tandem::gpu::exl3 {
namespace {

// Nearest FP16 number, ties to even.
float round_to_f16(float value) noexcept {
  return round_to_quantum<10, -14>(value);
}

std::vector<float> make_table(Codebook codebook) {
  std::vector<float> table(states);
  for (std::size_t s = 0; s < states; ++s) table[s] = weight_of(codebook, static_cast<std::uint16_t>(s));
  return table;
}

}  // namespace

float weight_of(Codebook codebook, std::uint16_t state) noexcept {
  const Hash hash = hash_of(codebook);
  const std::uint32_t x = state * hash.multiplier + hash.addend;
  if (codebook == Codebook::mul1) {
    const std::uint32_t sum = (x & 0xFFU) + ((x >> 8) & 0xFFU) + ((x >> 16) & 0xFFU) + (x >> 24);
    // Exact in FP32: the product has 22 bits and the sum is a multiple of 2^-18 below 4.
    return round_to_f16(static_cast<float>(1024U + sum) * mul1_step + mul1_offset);
  }
  const std::uint32_t halves = (x & half_pair_mask) ^ half_pair_flip;
  return round_to_f16(f16_to_float(static_cast<std::uint16_t>(halves)) +
                      f16_to_float(static_cast<std::uint16_t>(halves >> 16)));
}

std::span<const float> weights_of_states(Codebook codebook) {
  static const std::array<std::vector<float>, 3> tables{make_table(Codebook::inst3), make_table(Codebook::mcg),
                                                        make_table(Codebook::mul1)};
  return tables[static_cast<std::size_t>(codebook)];
}

const char* to_string(Codebook codebook) noexcept {
  switch (codebook) {
    case Codebook::inst3:
      return "3inst";
    case Codebook::mcg:
      return "mcg";
    case Codebook::mul1:
      return "mul1";
  }
  return "unknown";
}

std::optional<Codebook> parse_codebook(std::string_view name) noexcept {
  for (const Codebook codebook : {Codebook::inst3, Codebook::mcg, Codebook::mul1}) {
    if (name == to_string(codebook)) return codebook;
  }
  return std::nullopt;
}

}  // namespace tandem::gpu::exl3
