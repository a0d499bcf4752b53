// SeedSequence mixing, the PCG64 step and Lemire's rejection, with the constants of NumPy's sources.
#include "engram/numpy_random.hpp"

#include <array>
#include <bit>

namespace tandem::engram {
namespace {

constexpr std::size_t pool_words = 4;
using Pool = std::array<std::uint32_t, pool_words>;

// A hash whose constant changes with every use, so that equal words at different places differ.
struct RunningHash {
  std::uint32_t constant;
  std::uint32_t multiplier;

  std::uint32_t operator()(std::uint32_t value) noexcept {
    value ^= constant;
    constant *= multiplier;
    value *= constant;
    return value ^ value >> 16;
  }
};

std::uint32_t mix(std::uint32_t x, std::uint32_t y) noexcept {
  const std::uint32_t result = x * 0xCA01F9DDU - y * 0x4973F715U;
  return result ^ result >> 16;
}

// Spreads the seed's 32-bit words over the pool. A seed below 2^64 never has more words than the pool.
Pool fill_pool(std::uint64_t seed) noexcept {
  RunningHash hash{0x43B0D7E5U, 0x931E8875U};
  const Pool entropy{static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32), 0, 0};
  Pool pool{};
  for (std::size_t i = 0; i < pool_words; ++i) pool[i] = hash(entropy[i]);
  for (std::size_t source = 0; source < pool_words; ++source) {
    for (std::size_t target = 0; target < pool_words; ++target) {
      if (source != target) pool[target] = mix(pool[target], hash(pool[source]));
    }
  }
  return pool;
}

std::array<std::uint64_t, 4> generate_state(const Pool& pool) noexcept {
  RunningHash hash{0x8B51F9DDU, 0x58F38DEDU};
  std::array<std::uint64_t, 4> state{};
  for (std::size_t i = 0; i < 2 * state.size(); ++i) {
    state[i / 2] |= static_cast<std::uint64_t>(hash(pool[i % pool_words])) << (i % 2 * 32);
  }
  return state;
}

}  // namespace

NumpyRandom::NumpyRandom(std::uint64_t seed) noexcept {
  const auto words = generate_state(fill_pool(seed));
  const Wide initial = static_cast<Wide>(words[0]) << 64 | words[1];
  const Wide stream = static_cast<Wide>(words[2]) << 64 | words[3];
  increment_ = stream << 1 | 1;
  advance();
  state_ += initial;
  advance();
}

void NumpyRandom::advance() noexcept {
  constexpr Wide multiplier = static_cast<Wide>(0x2360ED051FC65DA4ULL) << 64 | 0x4385DF649FCCF645ULL;
  state_ = state_ * multiplier + increment_;
}

std::uint64_t NumpyRandom::next() noexcept {
  advance();
  const auto folded = static_cast<std::uint64_t>(state_ >> 64) ^ static_cast<std::uint64_t>(state_);
  return std::rotr(folded, static_cast<int>(state_ >> 122));
}

std::uint64_t NumpyRandom::below(std::uint64_t bound) noexcept {
  const std::uint64_t rejected_below = (0 - bound) % bound;
  Wide product = static_cast<Wide>(next()) * bound;
  while (static_cast<std::uint64_t>(product) < rejected_below) product = static_cast<Wide>(next()) * bound;
  return static_cast<std::uint64_t>(product >> 64);
}

}  // namespace tandem::engram
