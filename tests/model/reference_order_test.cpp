// Sums in the reference's order: bit for bit what the golden files hold where they hold FP32 values of known inputs,
// and a plain chain everywhere else.
#include <boost/test/unit_test.hpp>
#include <cmath>
#include <random>
#include <vector>

#include "gpu/cpu/chain_product.hpp"
#include "gpu/cpu/cpu_ops.hpp"
#include "gpu/cpu/reference_rows.hpp"
#include "tests/model/golden_fixture.hpp"

namespace tandem::gpu::test {
namespace {

std::vector<float> random_values(std::size_t count, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  std::vector<float> values(count);
  for (float& value : values) value = normal(random);
  return values;
}

Linear f32_matrix(const std::vector<float>& values, std::int64_t n, std::int64_t k) {
  Linear weight;
  weight.format = WeightFormat::f32;
  weight.n = n;
  weight.k = k;
  weight.codes = Buffer::host(values.size() * sizeof(float));
  std::copy(values.begin(), values.end(), weight.codes.as<float>());
  return weight;
}

// The order in words: a chain of fused products a block, blocks added in order.
float plain_chain(const float* x, const float* w, std::int64_t k) {
  float total = 0;
  for (std::int64_t at = 0; at < k;) {
    const std::int64_t end = at + chain_block(k - at);
    float sum = 0;
    const bool first = at == 0;
    for (; at < end; ++at) sum = std::fma(x[at], w[at], sum);
    total = first ? sum : total + sum;
  }
  return total;
}

Tensor tensor_of(const Golden& value, std::int64_t rows) {
  return Tensor::f32(const_cast<float*>(value.values.data()), rows,
                     static_cast<std::int64_t>(value.values.size()) / rows);
}

}  // namespace

BOOST_AUTO_TEST_SUITE(reference_order)

BOOST_AUTO_TEST_CASE(blocks_of_a_chain_cover_k_and_are_at_most_384_inputs) {
  BOOST_TEST(chain_block(1) == 1);
  BOOST_TEST(chain_block(384) == 384);
  BOOST_TEST(chain_block(385) == 192);
  BOOST_TEST(chain_block(640) == 320);
  BOOST_TEST(chain_block(767) == 384);
  BOOST_TEST(chain_block(768) == 384);
  BOOST_TEST(chain_block(20480) == 384);
}

BOOST_AUTO_TEST_CASE(products_are_chains_for_any_size_and_thread_count) {
  for (const std::int64_t k : {1, 31, 32, 256, 385, 416, 640, 768, 1024, 1100}) {
    constexpr std::int64_t rows = 99, n = 21;
    const auto x = random_values(static_cast<std::size_t>(rows * k), 1);
    const auto w = random_values(static_cast<std::size_t>(n * k), 2);
    const Linear weight = f32_matrix(w, n, k);
    for (const int threads : {1, 3}) {
      std::vector<float> y(static_cast<std::size_t>(rows * n));
      make_cpu_ops(threads, SumOrder::reference)
          ->linear(Tensor::f32(const_cast<float*>(x.data()), rows, k), weight, {false, false},
                   Tensor::f32(y.data(), rows, n));
      int wrong = 0;
      for (std::int64_t i = 0; i < rows * n; ++i)
        wrong += y[static_cast<std::size_t>(i)] != plain_chain(x.data() + i / n * k, w.data() + i % n * k, k);
      BOOST_TEST(wrong == 0, "k " << k << ", " << threads << " threads: " << wrong);
    }
  }
}

BOOST_AUTO_TEST_CASE(slices_of_k_do_not_cut_the_chain) {
  constexpr std::int64_t rows = 3, n = 18, half = 544;
  const auto x = random_values(rows * 2 * half, 3);
  const auto w = random_values(n * 2 * half, 4);
  PartialLinear weight;
  for (const std::int64_t first : {std::int64_t{0}, half}) {
    std::vector<float> part;
    for (std::int64_t row = 0; row < n; ++row) {
      const auto from = w.begin() + row * 2 * half + first;
      part.insert(part.end(), from, from + half);
    }
    weight.slices.push_back(f32_matrix(part, n, half));
  }
  weight.n = n;
  weight.k_local = 2 * half;
  std::vector<float> y(2 * rows * n, -1.0F);
  make_cpu_ops(2, SumOrder::reference)
      ->partial_linear(Tensor::f32(const_cast<float*>(x.data()), rows, 2 * half), weight, {},
                       Tensor::f32(y.data(), 2 * rows, n));
  for (std::int64_t i = 0; i < rows * n; ++i) {
    const float expected = plain_chain(x.data() + i / n * 2 * half, w.data() + i % n * 2 * half, 2 * half);
    BOOST_TEST(y[static_cast<std::size_t>(i)] == expected);
    BOOST_TEST(y[static_cast<std::size_t>(rows * n + i)] == 0.0F);
  }
}

// K = 256: the head's FP32 logits of the recorded rows.
BOOST_AUTO_TEST_CASE(logits_of_recorded_rows_equal_the_reference_bit_for_bit) {
  const Golden normed = golden("layers", "final.normed"), expected = golden("logits", "s32.p41");
  std::vector<float> logits(expected.values.size());
  make_cpu_ops(1, SumOrder::reference)
      ->linear(tensor_of(normed, normed.rows()), shared_rig("s32").model->weights.head, {false, false},
               Tensor::f32(logits.data(), expected.rows(), expected.cols()));
  BOOST_TEST((logits == expected.values));
}

// K = 1024 in three blocks, and the mean of squares of 1,024 values.
BOOST_AUTO_TEST_CASE(mixes_of_recorded_streams_equal_the_reference_bit_for_bit) {
  const auto ops = make_cpu_ops(1, SumOrder::reference);
  for (const int layer : {0, 9}) {
    const std::string scope = "layers." + std::to_string(layer) + ".";
    const Golden streams = golden("layers", scope + "stream_in"), expected = golden("layers", scope + "hc_attn_mix");
    const std::int64_t rows = streams.rows(), width = expected.cols();
    const Tensor input = tensor_of(streams, rows);
    const DenseF32& fn = shared_rig("s32").model->weights.layers[static_cast<std::size_t>(layer)].hc_attn.fn;
    const Linear weight = f32_matrix({fn.data(), fn.data() + width * input.cols}, width, input.cols);
    std::vector<float> mix(expected.values.size());
    ops->linear(input, weight, {false, false}, Tensor::f32(mix.data(), rows, width));
    for (std::int64_t row = 0; row < rows; ++row) {
      const float mean = reference_sum_of_squares(input.row<float>(row), input.cols) / static_cast<float>(input.cols);
      const float factor = 1.0F / std::sqrt(mean + static_cast<float>(shared_rig("s32").config().norm_eps));
      for (std::int64_t i = 0; i < width; ++i) mix[static_cast<std::size_t>(row * width + i)] *= factor;
    }
    BOOST_TEST((mix == expected.values), "layer " << layer);
  }
}

BOOST_AUTO_TEST_CASE(sums_of_rows_of_any_length_are_near_the_exact_sum) {
  for (const std::size_t n : {1U, 7U, 8U, 33U, 256U, 1000U, 1024U, 20480U, 40000U}) {
    const auto x = random_values(n, 5), y = random_values(n, 6), z = random_values(n, 7);
    double squares = 0, products = 0, size = 0;
    for (std::size_t i = 0; i < n; ++i) {
      squares += static_cast<double>(x[i]) * x[i];
      products += static_cast<double>(x[i]) * y[i] * z[i];
      size += std::abs(static_cast<double>(x[i]) * y[i] * z[i]);
    }
    const auto count = static_cast<std::int64_t>(n);
    BOOST_TEST(std::abs(reference_sum_of_squares(x.data(), count) - squares) <= 1e-6 * squares, n);
    BOOST_TEST(std::abs(reference_dot3(x.data(), y.data(), z.data(), count) - products) <= 1e-6 * size, n);
  }
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace tandem::gpu::test
