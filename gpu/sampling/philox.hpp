// Philox4x32-10: random numbers as a pure function of a key and a counter (Salmon et al., "Parallel random numbers: as
// easy as 1, 2, 3").
//
// A draw is addressed by (seed, position, purpose), never by "the next one": a token replayed after a crash, decoded in
// another batch or verified as a draft sees the same number, and draws of different purposes are independent.
#pragma once

#include <array>
#include <cstdint>

namespace tandem::gpu {

using PhiloxCounter = std::array<std::uint32_t, 4>;
using PhiloxKey = std::array<std::uint32_t, 2>;

// Returns the four words of block `counter` under `key`.
PhiloxCounter philox4x32_10(PhiloxCounter counter, PhiloxKey key) noexcept;

enum class DrawPurpose : std::uint32_t {
  target = 0,      // the token itself, also as the keyed choice of a verify row
  draft = 1,       // a draft network's token
  acceptance = 2,  // rejection sampling: accept the draft?
  residual = 3,    // rejection sampling: the token after a rejection
};

// Names one random number.
struct DrawKey {
  std::uint64_t seed = 0;     // of the request
  std::int64_t position = 0;  // of the token in its sequence
  DrawPurpose purpose = DrawPurpose::target;
};

// Returns the number of the open interval (0, 1) that 64 random bits stand for: the middle of one of 2^52 equal cells.
// With 53 bits the middles of the upper half would not be doubles, and the last would be rounded to 1.
constexpr double open_unit(std::uint64_t bits) noexcept {
  return (static_cast<double>(bits >> 12) + 0.5) * 0x1p-52;
}

// Returns a number in the open interval (0, 1) with 52 random bits.
double uniform(const DrawKey& key) noexcept;

}  // namespace tandem::gpu
