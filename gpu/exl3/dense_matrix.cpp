// The backend's own decoder, a few outputs at a time.
#include "gpu/exl3/dense_matrix.hpp"

#include <algorithm>
#include <vector>

#include "gpu/cpu/product.hpp"

namespace tandem::gpu::exl3 {

void decode_dense(const Linear& weight, float* out) {
  constexpr std::int64_t pad = 16;  // decode_weights fills rows up to whole groups of lanes
  const std::int64_t stride = (weight.k + pad - 1) / pad * pad;
  std::vector<float> rows(static_cast<std::size_t>(panel_cols * stride));
  for (std::int64_t first = 0; first < weight.n; first += panel_cols) {
    const std::int64_t count = std::min(panel_cols, weight.n - first);
    decode_weights({&weight, first, count}, 0, weight.k, rows.data(), stride);
    for (std::int64_t r = 0; r < count; ++r)
      std::copy_n(rows.data() + r * stride, weight.k, out + (first + r) * weight.k);
  }
}

}  // namespace tandem::gpu::exl3
