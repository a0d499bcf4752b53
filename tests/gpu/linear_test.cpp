// Products over every format and odd sizes, and the invariance rules: a row's bits depend on that row alone, on any
// instruction set.
#include <boost/test/unit_test.hpp>

#include "gpu/cpu/simd/targets.hpp"

#include <hwy/highway.h>

#include <limits>
#include <random>

#include "gpu/cpu/cpu_ops.hpp"
#include "gpu/numeric/minifloat.hpp"
#include "tests/gpu/golden_ops_fixture.hpp"

using namespace tandem::gpu;
using namespace tandem::gpu::test;

namespace {

std::vector<float> random_floats(std::size_t count, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  std::vector<float> values(count);
  for (float& value : values) value = normal(random);
  return values;
}

// A weight with random codes; `dense` gets its values [n, k].
Linear random_linear(WeightFormat format, std::int64_t n, std::int64_t k, std::vector<float>& dense) {
  std::mt19937 random(11);
  Linear w;
  w.format = format;
  w.n = n;
  w.k = k;
  dense = random_floats(static_cast<std::size_t>(n * k), 12);
  const std::int64_t groups = (k + 31) / 32;
  std::vector<std::uint8_t> scales(
      static_cast<std::size_t>((format == WeightFormat::fp8_block32 ? (n + 31) / 32 : n) * groups));
  for (auto& scale : scales) scale = static_cast<std::uint8_t>(120 + random() % 8);
  w.scales = buffer_of(scales);
  if (format == WeightFormat::f32) w.codes = buffer_of(dense);
  std::vector<std::uint16_t> halves;
  std::vector<std::uint8_t> bytes(static_cast<std::size_t>(format == WeightFormat::fp4_block32 ? n * k / 2 : n * k));
  for (std::int64_t i = 0; i < n * k; ++i) {
    float& value = dense[static_cast<std::size_t>(i)];
    const std::int64_t row = i / k, group = i % k / 32;
    if (format == WeightFormat::bf16) {
      halves.push_back(float_to_bf16(value));
      value = bf16_to_float(halves.back());
    } else if (format == WeightFormat::fp8_block32) {
      auto& code = bytes[static_cast<std::size_t>(i)] = static_cast<std::uint8_t>(random() % 0x7F);
      value = e4m3_to_float(code) * e8m0_to_float(scales[static_cast<std::size_t>(row / 32 * groups + group)]);
    } else if (format == WeightFormat::fp4_block32) {
      const auto code = static_cast<std::uint8_t>(random() % 16);
      bytes[static_cast<std::size_t>(i / 2)] |= static_cast<std::uint8_t>(code << (4 * (i % 2)));
      value = e2m1_to_float(code) * e8m0_to_float(scales[static_cast<std::size_t>(row * groups + group)]);
    }
  }
  if (format == WeightFormat::bf16) w.codes = buffer_of(halves);
  if (w.is_low_precision()) w.codes = buffer_of(bytes);
  return w;
}

std::vector<float> multiply(Ops& ops, std::vector<float> x, std::int64_t rows, const Linear& w) {
  std::vector<float> y(static_cast<std::size_t>(rows * w.n));
  ops.linear(Tensor::f32(x.data(), rows, w.k), w, {.q8 = true, .round_output = false},
             Tensor::f32(y.data(), rows, w.n));
  return y;
}

// Sum in double of the exact products.
std::vector<float> multiply_plainly(const std::vector<float>& x, std::int64_t rows, const Linear& w,
                                    const std::vector<float>& dense) {
  std::vector<float> y;
  for (std::int64_t r = 0; r < rows; ++r) {
    for (std::int64_t c = 0; c < w.n; ++c) {
      double sum = 0;
      for (std::int64_t i = 0; i < w.k; ++i)
        sum += double{x[static_cast<std::size_t>(r * w.k + i)]} * dense[static_cast<std::size_t>(c * w.k + i)];
      y.push_back(static_cast<float>(sum));
    }
  }
  return y;
}

constexpr WeightFormat formats[] = {WeightFormat::bf16, WeightFormat::f32, WeightFormat::fp8_block32,
                                    WeightFormat::fp4_block32};

}  // namespace

BOOST_AUTO_TEST_SUITE(linear)

BOOST_AUTO_TEST_CASE(products_of_all_formats_and_sizes_equal_plain_sums) {
  const auto ops = make_cpu_ops(2);
  const struct {
    std::int64_t rows, n, k;
  } sizes[] = {{1, 1, 2}, {1, 17, 64}, {3, 5, 30}, {7, 33, 96}, {97, 19, 544}, {2, 64, 1056}};
  for (const WeightFormat format : formats) {
    for (const auto& s : sizes) {
      std::vector<float> dense;
      const Linear w = random_linear(format, s.n, s.k, dense);
      auto x = random_floats(static_cast<std::size_t>(s.rows * s.k), 13);
      std::vector<float> y(static_cast<std::size_t>(s.rows * s.n));
      ops->linear(Tensor::f32(x.data(), s.rows, s.k), w, {.q8 = false, .round_output = false},
                  Tensor::f32(y.data(), s.rows, s.n));
      BOOST_TEST(relative_l2(y, multiply_plainly(x, s.rows, w, dense)) < 1e-6);
    }
  }
}

BOOST_AUTO_TEST_CASE(a_rows_bits_do_not_depend_on_the_rows_beside_it_or_on_threads) {
  const auto one = make_cpu_ops(1), three = make_cpu_ops(3);
  for (const WeightFormat format : formats) {
    std::vector<float> dense;
    const Linear w = random_linear(format, 70, 1100 / 4 * 4, dense);
    const std::int64_t rows = 103;
    const auto x = random_floats(static_cast<std::size_t>(rows * w.k), 14);
    const auto together = multiply(*three, x, rows, w);
    for (const std::int64_t r : {0, 5, 96, 102}) {
      const std::vector<float> row(x.begin() + r * w.k, x.begin() + (r + 1) * w.k);
      const auto alone = multiply(*one, row, 1, w);
      BOOST_TEST(std::equal(alone.begin(), alone.end(), together.begin() + r * w.n));
    }
  }
}

BOOST_AUTO_TEST_CASE(results_have_the_same_bits_on_every_instruction_set) {
  std::vector<float> dense;
  const Linear w = random_linear(WeightFormat::fp8_block32, 20, 320, dense);
  const auto x = random_floats(static_cast<std::size_t>(5 * w.k), 15);
  const auto native = multiply(*make_cpu_ops(1), x, 5, w);
  for (const std::int64_t target : {HWY_AVX3, HWY_AVX2, HWY_NEON, HWY_EMU128, HWY_SCALAR}) {
    if ((hwy::SupportedTargets() & target) == 0) continue;
    hwy::SetSupportedTargetsForTest(target);
    hwy::GetChosenTarget().Update(hwy::SupportedTargets());
    BOOST_TEST((multiply(*make_cpu_ops(1), x, 5, w) == native), "target " << target);
    hwy::SetSupportedTargetsForTest(0);
    hwy::GetChosenTarget().Update(hwy::SupportedTargets());
  }
}

BOOST_AUTO_TEST_CASE(a_row_with_nan_or_infinity_spoils_only_itself) {
  const auto ops = make_cpu_ops(2);
  std::vector<float> dense;
  const Linear w = random_linear(WeightFormat::fp8_block32, 40, 128, dense);
  auto x = random_floats(static_cast<std::size_t>(4 * w.k), 16);
  const auto clean = multiply(*ops, x, 4, w);
  x[static_cast<std::size_t>(w.k)] = std::numeric_limits<float>::quiet_NaN();
  x[static_cast<std::size_t>(2 * w.k)] = std::numeric_limits<float>::infinity();
  const auto broken = multiply(*ops, x, 4, w);
  BOOST_TEST(std::equal(clean.begin(), clean.begin() + w.n, broken.begin()));
  BOOST_TEST(std::equal(clean.begin() + 3 * w.n, clean.end(), broken.begin() + 3 * w.n));
  BOOST_TEST(std::isnan(broken[static_cast<std::size_t>(w.n)]));
}

BOOST_AUTO_TEST_CASE(two_slices_of_k_sum_to_the_whole_product) {
  const auto ops = make_cpu_ops(2);
  std::vector<float> dense;
  const Linear w = random_linear(WeightFormat::f32, 24, 128, dense);
  PartialLinear partial{{}, 24, 128};
  for (std::int64_t s = 0; s < 2; ++s) {
    std::vector<float> half;
    for (std::int64_t r = 0; r < 24; ++r)
      half.insert(half.end(), dense.begin() + r * 128 + s * 64, dense.begin() + r * 128 + s * 64 + 64);
    Linear slice = w;
    slice.k = 64;
    slice.codes = buffer_of(half);
    partial.slices.push_back(slice);
  }
  auto x = random_floats(3 * 128, 17);
  std::vector<float> parts(2 * 3 * 24);
  ops->partial_linear(Tensor::f32(x.data(), 3, 128), partial, {}, Tensor::f32(parts.data(), 6, 24));
  std::vector<float> sum(3 * 24);
  for (std::size_t i = 0; i < sum.size(); ++i) sum[i] = parts[i] + parts[sum.size() + i];
  BOOST_TEST(relative_l2(sum, multiply_plainly(x, 3, w, dense)) < 1e-6);
}

BOOST_AUTO_TEST_SUITE_END()
