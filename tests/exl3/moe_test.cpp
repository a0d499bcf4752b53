// Experts with EXL3 weights: recorded sums of mixed widths, and the same bits alone, together and beside experts of
// other formats.
#include <boost/test/unit_test.hpp>

#include "gpu/cpu/cpu_ops.hpp"
#include "gpu/numeric/bf16.hpp"
#include "gpu/ops.hpp"
#include "tests/exl3/golden_fixture.hpp"
#include "tests/exl3/pack_folder_fixture.hpp"

using namespace tandem::gpu;
using namespace tandem::gpu::test;

namespace {

constexpr Numerics exact{.bf16_activations = false, .kv_quantisers = false, .q8 = false, .fp32_partials = true};

// A call and everything that it points to.
struct Call {
  MoeWeights weights;
  std::vector<float> x, routing_weights;
  std::vector<std::int32_t> ids;
  std::int64_t rows = 0, hidden = 0, slots = 2;
  double limit = 10;
  Numerics numerics = exact;

  // One block of `rows` rows a slice of w2.
  std::vector<float> run(Ops& ops) {
    const auto slices = static_cast<std::int64_t>(weights.experts.front().w2.slices.size());
    const std::int64_t blocks = numerics.fp32_partials ? slices : 1;
    std::vector<float> y(static_cast<std::size_t>(blocks * rows * hidden));
    MoeCall call;
    call.x = Tensor::f32(x.data(), rows, hidden);
    call.routing = {Tensor::i32(ids.data(), rows, slots), Tensor::f32(routing_weights.data(), rows, slots)};
    call.weights = &weights;
    call.swiglu_limit = limit;
    call.numerics = numerics;
    call.out = Tensor::f32(y.data(), blocks * rows, hidden);
    ops.moe(call);
    return y;
  }
};

PartialLinear in_slices(const exl3::PackedMatrix& matrix, std::int64_t slices) {
  PartialLinear partial;
  partial.n = matrix.out;
  partial.k_local = matrix.in;
  const std::int64_t each = matrix.in / slices;
  for (std::int64_t s = 0; s < slices; ++s)
    partial.slices.push_back(linear_of(cut(matrix, {s * each, each, 0, matrix.out})));
  return partial;
}

ExpertWeights random_expert(unsigned seed, std::uint8_t bits) {
  const exl3::Form form{bits, seed % 2 == 0 ? exl3::Codebook::mul1 : exl3::Codebook::mcg};
  ExpertWeights expert;
  expert.w1 = linear_of(random_matrix(256, 256, form, seed));
  expert.w3 = linear_of(random_matrix(256, 256, form, seed + 1000));
  expert.w2 = in_slices(random_matrix(256, 256, form, seed + 2000), 2);
  return expert;
}

Linear bf16_matrix(std::int64_t n, std::int64_t k, unsigned seed) {
  Linear linear;
  linear.format = WeightFormat::bf16;
  linear.n = n;
  linear.k = k;
  linear.codes = Buffer::host(static_cast<std::size_t>(n * k) * 2);
  const auto values = random_floats(static_cast<std::size_t>(n * k), seed);
  for (std::size_t i = 0; i < values.size(); ++i)
    linear.codes.as<std::uint16_t>()[i] = float_to_bf16(0.05F * values[i]);
  return linear;
}

ExpertWeights plain_expert(unsigned seed) {
  ExpertWeights expert;
  expert.w1 = bf16_matrix(256, 256, seed);
  expert.w3 = bf16_matrix(256, 256, seed + 1);
  expert.w2 = {{bf16_matrix(256, 128, seed + 2), bf16_matrix(256, 128, seed + 3)}, 256, 256};
  return expert;
}

Call random_call(std::int64_t rows) {
  Call call;
  call.rows = rows;
  call.hidden = 256;
  call.x = random_floats(static_cast<std::size_t>(rows * 256), 50);
  for (std::int64_t t = 0; t < rows; ++t) {
    call.ids.push_back(static_cast<std::int32_t>(t % 3));
    call.ids.push_back(static_cast<std::int32_t>((t + 1 + t / 3 % 2) % 3));
    call.routing_weights.push_back(0.75F);
    call.routing_weights.push_back(0.5F);
  }
  for (unsigned e = 0; e < 3; ++e) call.weights.experts.push_back(random_expert(e, static_cast<std::uint8_t>(2 + e)));
  call.weights.shared = random_expert(9, 5);
  return call;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(exl3_moe)

BOOST_AUTO_TEST_CASE(recorded_experts_of_mixed_widths_give_the_recorded_sums) {
  const GoldenFile golden("moe");
  Call call;
  call.rows = 6;
  call.hidden = 256;
  call.x = golden.halves("x");
  call.ids = golden.values<std::int32_t>("topk_ids");
  call.routing_weights = golden.values<float>("topk_weights");
  call.limit = golden.values<float>("swiglu_limit").front();
  for (int e = 0; e < 4; ++e) {
    const std::string prefix = "experts." + std::to_string(e) + ".";
    ExpertWeights expert;
    expert.w1 = linear_of(golden.matrix(prefix + "w1"));
    expert.w3 = linear_of(golden.matrix(prefix + "w3"));
    expert.w2 = in_slices(golden.matrix(prefix + "w2"), 1);
    call.weights.experts.push_back(std::move(expert));
  }
  const auto ops = make_cpu_ops(2);
  BOOST_TEST(relative_rms(call.run(*ops), golden.values<double>("y")) < 1e-6);
}

BOOST_AUTO_TEST_CASE(a_rows_bits_do_not_depend_on_the_rows_beside_it_or_on_threads) {
  for (const Numerics numerics : {exact, Numerics{.q8 = false, .fp32_partials = true}, Numerics{.q8 = false}}) {
    Call call = random_call(130);
    call.numerics = numerics;
    const auto together = call.run(*make_cpu_ops(3));
    const auto one = make_cpu_ops(1);
    for (const std::int64_t t : {0, 64, 129}) {
      Call alone = random_call(130);
      alone.numerics = numerics;
      alone.rows = 1;
      alone.x.assign(call.x.begin() + t * 256, call.x.begin() + (t + 1) * 256);
      alone.ids.assign(call.ids.begin() + 2 * t, call.ids.begin() + 2 * t + 2);
      const auto y = alone.run(*one);
      for (std::size_t block = 0; block < y.size() / 256; ++block) {
        const auto first = together.begin() + static_cast<std::ptrdiff_t>(block * 130 * 256) + t * 256;
        BOOST_TEST(std::equal(first, first + 256, y.begin() + static_cast<std::ptrdiff_t>(block * 256)));
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(experts_of_other_formats_keep_their_bits_beside_packed_ones) {
  Call plain = random_call(40);
  for (unsigned e = 0; e < 3; ++e) plain.weights.experts[e] = plain_expert(100 + 10 * e);
  plain.weights.shared = {};
  Call mixed = plain;
  mixed.weights.experts.push_back(random_expert(4, 3));  // nobody routes to it, but it decides the path
  const auto ops = make_cpu_ops(2);
  BOOST_TEST((plain.run(*ops) == mixed.run(*ops)));
}

BOOST_AUTO_TEST_SUITE_END()
