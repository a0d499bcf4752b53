// The way of a matrix into the domain in which it is quantised: D(suh)^-1, BH on both sides, D(svh)^-1.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace tandem::gpu::exl3 {

struct Regularised {
  std::int64_t in = 0, out = 0;
  std::vector<float> values;          // [in, out], rows of rms 1.2437, nearly Gaussian
  std::vector<float> su, sv;          // scales with signs; W = D(su) BH values BH D(sv)
  std::vector<std::uint8_t> is_zero;  // [out]: outputs whose weights are all zero; their svh is 0
};

// `weight` [in, out] row-major; signs are +-1.
Regularised regularise(std::span<const float> weight, std::span<const float> signs_in,
                       std::span<const float> signs_out);

}  // namespace tandem::gpu::exl3
