// Masses: weights of tokens as integers, so that their sums are exact and do not depend on the order of adding.
//
// A weight of 1, which the best token has, is 2^44: smaller weights than 2^-44 count as nothing, and a million tokens
// fit 64 bits. Host and device therefore find the same tokens, however they share the work.
#pragma once

#include <cstdint>

namespace tandem::gpu {

// weight in [0, 1].
constexpr std::uint64_t mass_of(double weight) noexcept {
  return static_cast<std::uint64_t>(weight * 0x1p44);
}

// The least mass that holds the share `top_p` of `total`; at least 1.
constexpr std::uint64_t mass_needed(float top_p, std::uint64_t total) noexcept {
  const double wanted = static_cast<double>(top_p) * static_cast<double>(total);
  auto whole = static_cast<std::uint64_t>(wanted);
  if (static_cast<double>(whole) < wanted) ++whole;
  return whole < 1 ? 1 : whole;
}

// floor(u * total) for a u of open_unit: the token at which the masses so far exceed it is the one drawn.
constexpr std::uint64_t mass_drawn(double u, std::uint64_t total) noexcept {
  const auto odd = static_cast<std::uint64_t>(u * 0x1p53);  // exact: u is an odd multiple of 2^-53
  constexpr std::uint64_t low = 0xFFFFFFFFU;
  const std::uint64_t al = odd & low, ah = odd >> 32, bl = total & low, bh = total >> 32;
  const std::uint64_t ll = al * bl, lh = al * bh, hl = ah * bl;
  const std::uint64_t middle = (ll >> 32) + (lh & low) + (hl & low);
  const std::uint64_t product_high = ah * bh + (lh >> 32) + (hl >> 32) + (middle >> 32);
  const std::uint64_t product_low = middle << 32 | (ll & low);
  return product_high << 11 | product_low >> 53;
}

}  // namespace tandem::gpu
