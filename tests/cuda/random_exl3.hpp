// EXL3 weights with random codes, as a file holds them and as the device does.
#pragma once

#include <algorithm>

#include "gpu/numeric/bf16.hpp"
#include "tests/cuda/device_fixture.hpp"

namespace tandem::gpu::test {

inline Linear random_exl3(Random& random, int bits, std::int64_t n, std::int64_t k) {
  Linear weight;
  weight.format = WeightFormat::exl3;
  weight.n = n;
  weight.k = k;
  weight.exl3.bits = static_cast<std::uint8_t>(bits);
  const std::int64_t inputs = exl3::padded_side(k), outputs = exl3::padded_side(n);
  weight.codes = Buffer::host(static_cast<std::size_t>(inputs * outputs * bits / 8));
  const auto codes = random.bytes(static_cast<std::int64_t>(weight.codes.bytes));
  std::copy(codes.begin(), codes.end(), weight.codes.as<std::uint8_t>());
  weight.scales = Buffer::host(static_cast<std::size_t>(2 * (inputs + outputs)));
  auto* scales = weight.scales.as<std::uint16_t>();
  for (const float value : random.floats(inputs)) *scales++ = float_to_f16(value > 0 ? 1.0F + 0.1F * value : -1.0F);
  for (const float value : random.floats(outputs)) *scales++ = float_to_f16(0.05F * value);
  return weight;
}

inline Linear placed_exl3(const Linear& weight) {
  Linear copy = weight;
  copy.codes = copy_of(weight.codes);
  backends().cuda->prepare(copy);
  return placed(copy);
}

}  // namespace tandem::gpu::test
