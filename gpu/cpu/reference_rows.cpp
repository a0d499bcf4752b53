// Plain loops: traces run them, servers do not.
#include "gpu/cpu/reference_rows.hpp"

#include <array>

namespace tandem::gpu {
namespace {

constexpr std::int64_t vector_lanes = 8;
constexpr std::int64_t vectors = 4;
constexpr std::int64_t accumulators = vectors * vector_lanes;
constexpr int levels = 4;
constexpr std::int64_t level_step = 16;

using Accumulators = std::array<float, accumulators>;

void move_up(Accumulators& from, Accumulators& to) {
  for (std::size_t l = 0; l < from.size(); ++l) to[l] += from[l];
  from.fill(0.0F);
}

// Sums of term(i), i = lane mod 32, over whole groups of 32.
template <class Term>
Accumulators cascade(std::int64_t groups, const Term& term) {
  std::array<Accumulators, levels> level{};
  for (std::int64_t group = 0; group < groups; ++group) {
    for (std::int64_t l = 0; l < accumulators; ++l)
      level[0][static_cast<std::size_t>(l)] += term(group * accumulators + l);
    std::int64_t done = group + 1;
    for (std::size_t up = 1; up < levels && done % level_step == 0; ++up, done /= level_step)
      move_up(level[up - 1], level[up]);
  }
  for (std::size_t up = 1; up < levels; ++up) move_up(level[up], level[0]);
  return level[0];
}

template <class Term>
float sum(std::int64_t n, const Term& term) {
  const std::int64_t groups = n / accumulators, whole_vectors = n / vector_lanes;
  Accumulators sums = cascade(groups, term);
  for (std::int64_t i = groups * accumulators; i < whole_vectors * vector_lanes; ++i)
    sums[static_cast<std::size_t>(i % vector_lanes)] += term(i);
  for (std::size_t l = vector_lanes; l < accumulators; ++l) sums[l % vector_lanes] += sums[l];
  float total = 0;
  for (std::int64_t i = whole_vectors * vector_lanes; i < n; ++i) total += term(i);
  for (std::size_t l = 0; l < vector_lanes; ++l) total += sums[l];
  return total;
}

}  // namespace

float reference_sum_of_squares(const float* x, std::int64_t n) noexcept {
  return sum(n, [x](std::int64_t i) { return x[i] * x[i]; });
}

float reference_dot3(const float* a, const float* b, const float* c, std::int64_t n) noexcept {
  return sum(n, [=](std::int64_t i) { return (a[i] * b[i]) * c[i]; });
}

void reference_add_scaled(float a, const float* x, std::int64_t n, float* y) noexcept {
  for (std::int64_t i = 0; i < n; ++i) y[i] = y[i] + a * x[i];
}

}  // namespace tandem::gpu
