// Sums over single rows in the order and with the roundings of the library that computed the golden values: what
// SumOrder::reference means beside products (chain_product.hpp).
#pragma once

#include <cstdint>

namespace tandem::gpu {

// Sum of x^2 and of (a*b)*c over n values, each product rounded. 32 interleaved accumulators, four of eight lanes; long
// rows cascade: every 16 terms of an accumulator, and every 16 of those sums, are added to the next level.
float reference_sum_of_squares(const float* x, std::int64_t n) noexcept;
float reference_dot3(const float* a, const float* b, const float* c, std::int64_t n) noexcept;

// y = y + a * x, the product rounded.
void reference_add_scaled(float a, const float* x, std::int64_t n, float* y) noexcept;

}  // namespace tandem::gpu
