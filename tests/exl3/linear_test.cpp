// Products with EXL3 weights on the CPU backend: the vector decoder is exact, products equal plain sums in double, and
// a row's bits depend on that row alone, on every instruction set.
#include <boost/test/unit_test.hpp>

#include "gpu/cpu/simd/targets.hpp"

#include <hwy/highway.h>

#include "gpu/cpu/cpu_ops.hpp"
#include "gpu/cpu/exl3_kernels.hpp"
#include "gpu/exl3/codebook.hpp"
#include "gpu/numeric/bf16.hpp"
#include "gpu/ops.hpp"
#include "tests/exl3/golden_fixture.hpp"

using namespace tandem::gpu;
using namespace tandem::gpu::test;
using exl3::Codebook;

namespace {

std::vector<float> multiply(Ops& ops, std::vector<float> x, std::int64_t rows, const Linear& w) {
  std::vector<float> y(static_cast<std::size_t>(rows * w.n));
  ops.linear(Tensor::f32(x.data(), rows, w.k), w, {.q8 = true, .round_output = false},
             Tensor::f32(y.data(), rows, w.n));
  return y;
}

// Sums in double of x times the dequantised matrix [in, out].
std::vector<double> multiply_plainly(const std::vector<float>& x, std::int64_t rows, const Linear& w,
                                     const exl3::PackedMatrix& matrix) {
  const std::vector<float> dense = exl3::dequantise(matrix);
  std::vector<double> y(static_cast<std::size_t>(rows * w.n));
  for (std::int64_t r = 0; r < rows; ++r) {
    for (std::int64_t i = 0; i < w.k; ++i) {
      const double value = x[static_cast<std::size_t>(r * w.k + i)];
      for (std::int64_t c = 0; c < w.n; ++c) {
        y[static_cast<std::size_t>(r * w.n + c)] += value * dense[static_cast<std::size_t>(i * matrix.out + c)];
      }
    }
  }
  return y;
}

// Runs the body once for every instruction set that this processor has.
template <class Body>
void for_each_target(const Body& body) {
  for (const std::int64_t target : hwy::SupportedAndGeneratedTargets()) {
    hwy::SetSupportedTargetsForTest(target);
    BOOST_TEST_CONTEXT(hwy::TargetName(target)) body();
  }
  hwy::SetSupportedTargetsForTest(0);
}

}  // namespace

BOOST_AUTO_TEST_SUITE(exl3_linear)

BOOST_AUTO_TEST_CASE(vector_decoding_is_bit_exact_for_every_width_and_codebook) {
  for_each_target([] {
    for (int bits = 1; bits <= exl3::bits_max; ++bits) {
      for (const Codebook codebook : {Codebook::inst3, Codebook::mcg, Codebook::mul1}) {
        const auto matrix = random_matrix(384, 128, {static_cast<std::uint8_t>(bits), codebook}, 3);
        const std::vector<float> inner = exl3::decode_inner(matrix);
        const Linear w = linear_of(matrix);
        std::vector<float> strip(16 * 384);
        std::size_t different = 0;
        for (std::int64_t s = 0; s < 8; ++s) {
          const auto* words = w.codes.as<const std::uint16_t>() + s * 24 * matrix.form.tile_words();
          simd::decode_exl3({words, 24, matrix.form, strip.data(), 384});
          for (std::size_t i = 0; i < 16 * 384; ++i) {
            const std::size_t input = i % 384, output = static_cast<std::size_t>(s) * 16 + i / 384;
            different +=
                std::bit_cast<std::uint32_t>(strip[i]) != std::bit_cast<std::uint32_t>(inner[input * 128 + output]);
          }
        }
        BOOST_TEST(different == 0U, "bits " << bits << " " << exl3::to_string(codebook));
      }
    }
  });
}

BOOST_AUTO_TEST_CASE(recorded_linears_give_the_recorded_outputs) {
  const GoldenFile golden("linear");
  const auto ops = make_cpu_ops(2);
  for (const std::string name : {"mul1_k3", "mcg_k2", "3inst_k6_bias", "tp_mul1_k3", "mul1_k5"}) {
    const auto expected = golden.values<double>(name + ".y");
    const Linear w = linear_of(golden.matrix(name));
    auto y = multiply(*ops, golden.halves(name + ".x"), 5, w);
    if (golden.has(name + ".bias")) {
      const auto bias = golden.halves(name + ".bias");
      for (std::size_t i = 0; i < y.size(); ++i) y[i] += bias[i % bias.size()];
    }
    BOOST_TEST(relative_rms(y, expected) < 5e-7, name);
  }
}

BOOST_AUTO_TEST_CASE(products_of_all_sizes_and_row_counts_equal_plain_sums) {
  const auto ops = make_cpu_ops(2);
  const struct {
    std::int64_t rows, n, k;
    int bits;
  } cases[] = {{1, 128, 128, 1},  {2, 256, 128, 2}, {7, 128, 640, 3},  {63, 384, 256, 4}, {64, 128, 1152, 5},
               {65, 256, 384, 6}, {1, 129, 130, 7}, {7, 200, 1030, 8}, {100, 1, 1, 3},    {2, 255, 513, 2}};
  for (const auto& c : cases) {
    const auto matrix = random_matrix(exl3::padded_side(c.k), exl3::padded_side(c.n),
                                      {static_cast<std::uint8_t>(c.bits), Codebook::mul1}, 17);
    const Linear w = linear_of(matrix, c.n, c.k);
    const auto x = random_floats(static_cast<std::size_t>(c.rows * c.k), 18);
    BOOST_TEST(relative_rms(multiply(*ops, x, c.rows, w), multiply_plainly(x, c.rows, w, matrix)) < 1e-6);
  }
}

BOOST_AUTO_TEST_CASE(activations_beyond_half_precision_stay_finite) {
  const auto ops = make_cpu_ops(1);
  const auto matrix = random_matrix(256, 128, {3, Codebook::mul1}, 21);
  const Linear w = linear_of(matrix);
  auto x = random_floats(256, 22);
  for (float& value : x) value *= 1e6F;
  BOOST_TEST(relative_rms(multiply(*ops, x, 1, w), multiply_plainly(x, 1, w, matrix)) < 1e-6);
}

BOOST_AUTO_TEST_CASE(a_rows_bits_do_not_depend_on_the_rows_beside_it_threads_or_instruction_set) {
  const Linear w = linear_of(random_matrix(1152, 256, {3, Codebook::mul1}, 31));
  const std::int64_t rows = 103;
  const auto x = random_floats(static_cast<std::size_t>(rows * w.k), 32);
  const auto together = multiply(*make_cpu_ops(3), x, rows, w);
  for_each_target([&] {
    const auto one = make_cpu_ops(1);
    for (const std::int64_t r : {0, 5, 95, 96, 102}) {
      const std::vector<float> row(x.begin() + r * w.k, x.begin() + (r + 1) * w.k);
      const std::vector<float> y = multiply(*one, row, 1, w);
      const std::vector<float> expected(together.begin() + r * w.n, together.begin() + (r + 1) * w.n);
      BOOST_TEST((y == expected));
    }
  });
}

BOOST_AUTO_TEST_CASE(partial_sums_of_two_halves_are_the_recorded_ones) {
  const GoldenFile golden("linear");
  const auto matrix = golden.matrix("tp_mul1_k3");
  PartialLinear partial;
  partial.n = matrix.out;
  partial.k_local = matrix.in;
  for (std::int64_t half = 0; half < 2; ++half) {
    exl3::PackedMatrix slice = matrix;
    slice.in = matrix.in / 2;
    const auto words = static_cast<std::ptrdiff_t>(matrix.trellis.size() / 2);
    slice.trellis.assign(matrix.trellis.begin() + half * words, matrix.trellis.begin() + (half + 1) * words);
    slice.suh.assign(matrix.suh.begin() + half * slice.in, matrix.suh.begin() + (half + 1) * slice.in);
    partial.slices.push_back(linear_of(slice));
  }
  auto x = golden.halves("tp_mul1_k3.x");
  std::vector<float> y(2 * 5 * static_cast<std::size_t>(matrix.out));
  make_cpu_ops(2)->partial_linear(Tensor::f32(x.data(), 5, matrix.in), partial, {},
                                  Tensor::f32(y.data(), 10, matrix.out));
  auto expected = golden.values<double>("tp_mul1_k3.y_in_split0");
  const auto second = golden.values<double>("tp_mul1_k3.y_in_split1");
  expected.insert(expected.end(), second.begin(), second.end());
  BOOST_TEST(relative_rms(y, expected) < 5e-7);
}

BOOST_AUTO_TEST_SUITE_END()
