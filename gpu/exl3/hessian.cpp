// Row-oriented factorisation: every inner loop is a dot product of two contiguous rows.
#include "gpu/exl3/hessian.hpp"

#include <algorithm>
#include <cmath>
#include <optional>

#include "gpu/cpu/simd/kernels.hpp"
#include "gpu/exl3/hadamard.hpp"

namespace tandem::gpu::exl3 {
namespace {

float mean_diagonal(const std::vector<float>& h, std::int64_t n) {
  double sum = 0;
  for (std::int64_t i = 0; i < n; ++i) sum += h[static_cast<std::size_t>(i * n + i)];
  return static_cast<float>(sum / static_cast<double>(n));
}

// Lower triangular C with C C^T = h, or nothing if h is not positive definite.
std::optional<std::vector<float>> cholesky(const std::vector<float>& h, std::int64_t n) {
  std::vector<float> c(h.size());
  for (std::int64_t i = 0; i < n; ++i) {
    float* row = c.data() + i * n;
    for (std::int64_t j = 0; j <= i; ++j) {
      const float* other = c.data() + j * n;
      const float rest = h[static_cast<std::size_t>(i * n + j)] - simd::dot(row, other, j);
      if (j < i) {
        row[j] = rest / other[j];
      } else if (rest > 0) {
        row[i] = std::sqrt(rest);
      } else {
        return std::nullopt;
      }
    }
  }
  return c;
}

// C -> L: every row times the inverse of the diagonal block of each of its 16-column blocks.
void make_block_unit(std::vector<float>& c, std::int64_t n) {
  for (std::int64_t block = 0; block < n; block += tile_side) {
    const float* diagonal = c.data() + block * n + block;
    for (std::int64_t r = block + tile_side; r < n; ++r) {
      float* row = c.data() + r * n + block;
      for (std::int64_t j = tile_side - 1; j >= 0; --j) {
        float rest = row[j];
        for (std::int64_t i = j + 1; i < tile_side; ++i) rest -= row[i] * diagonal[i * n + j];
        row[j] = rest / diagonal[j * n + j];
      }
    }
  }
  for (std::int64_t r = 0; r < n; ++r) {
    const std::int64_t block = r / tile_side * tile_side;
    std::fill_n(c.data() + r * n + block, tile_side, 0.0F);
  }
}

}  // namespace

void Moments::add(const float* x) {
  if (!std::all_of(x, x + in_, [](float value) { return std::isfinite(value); })) return;
  for (std::int64_t i = 0; i < in_; ++i) simd::add_scaled(x[i], x + i, in_ - i, sums_.data() + i * in_ + i);
  ++rows_;
}

Hessian Hessian::identity(std::vector<float> signs) {
  Hessian hessian;
  hessian.in = static_cast<std::int64_t>(signs.size());
  hessian.rotated.resize(signs.size() * signs.size());
  for (std::size_t i = 0; i < signs.size(); ++i) hessian.rotated[i * signs.size() + i] = 1;
  hessian.signs = std::move(signs);
  return hessian;
}

std::vector<float> random_signs(std::int64_t count, std::uint64_t seed) {
  std::vector<float> signs(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < signs.size(); ++i) {
    // splitmix64: any mixing of (seed, index) will do, as long as a pack can be made again.
    std::uint64_t z = seed * 0x9E3779B97F4A7C15U + (i + 1) * 0xD1B54A32D192ED03U;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9U;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBU;
    signs[i] = ((z >> 40) & 1U) != 0 ? -1.0F : 1.0F;
  }
  return signs;
}

Hessian make_hessian(const Moments& moments, std::vector<float> signs) {
  constexpr float damping = 0.025F, retry_damping = 0.05F, smallest = 1e-20F;
  constexpr int retries = 10;
  const std::int64_t n = moments.in();
  Hessian hessian = Hessian::identity(std::move(signs));
  std::vector<float> h(static_cast<std::size_t>(n * n));
  const float scale = moments.rows() == 0 ? 0.0F : 1.0F / static_cast<float>(moments.rows());
  for (std::int64_t i = 0; i < n; ++i) {
    for (std::int64_t j = i; j < n; ++j) {
      const auto at = static_cast<std::size_t>(i * n + j);
      const float value = moments.sums()[at] * scale * hessian.signs[static_cast<std::size_t>(i)] *
                          hessian.signs[static_cast<std::size_t>(j)];
      h[at] = h[static_cast<std::size_t>(j * n + i)] = value;
    }
  }
  const float mean = mean_diagonal(h, n);
  if (!std::isfinite(mean) || mean < smallest) return hessian;
  const auto add_to_diagonal = [&](float value) {
    for (std::int64_t i = 0; i < n; ++i) h[static_cast<std::size_t>(i * n + i)] += value;
  };
  add_to_diagonal(damping * mean);
  transform_rows(h.data(), n, n);
  transform_columns(h.data(), n, n);
  hessian.rotated = h;
  for (int attempt = 0; attempt <= retries; ++attempt) {
    if (auto factor = cholesky(h, n)) {
      make_block_unit(*factor, n);
      hessian.factor = std::move(*factor);
      break;
    }
    add_to_diagonal(retry_damping * mean);
  }
  return hessian;
}

}  // namespace tandem::gpu::exl3
