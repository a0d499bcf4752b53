// The quantiser against recorded errors: the search of a tile, one whole matrix with and without calibration, the
// choice of bits.
#include <boost/test/unit_test.hpp>

#include "gpu/cpu/simd/targets.hpp"

#include <hwy/highway.h>

#include <limits>

#include "gpu/exl3/allocation.hpp"
#include "gpu/exl3/quantise.hpp"
#include "gpu/exl3/viterbi.hpp"
#include "tests/exl3/golden_fixture.hpp"

using namespace tandem;
using namespace tandem::gpu;
using namespace tandem::gpu::test;
using exl3::Codebook;

namespace {

std::span<const float, 256> tile(const std::vector<float>& values, std::size_t index) {
  return std::span<const float, 256>(values.data() + index * 256, 256);
}

// The recorded 256 x 128 matrix and its calibration.
struct GoldenMatrix {
  GoldenFile file{"quantize_mul1_k3"};
  std::vector<float> weight = file.values<float>("weight");
  std::vector<float> signs_in = file.values<float>("sign_in"), signs_out = file.values<float>("sign_out");
  std::vector<float> metrics = file.values<float>("metrics");

  // The recorded second moments, fed as rows of a matrix whose product they are.
  exl3::Hessian hessian() const {
    const auto h = file.values<float>("hessian");
    std::vector<double> factor(h.begin(), h.end());  // Cholesky in place, lower triangle
    for (std::size_t i = 0; i < 256; ++i) {
      for (std::size_t j = 0; j <= i; ++j) {
        double rest = factor[i * 256 + j];
        for (std::size_t k = 0; k < j; ++k) rest -= factor[i * 256 + k] * factor[j * 256 + k];
        factor[i * 256 + j] = i == j                    ? std::sqrt(std::max(rest, 0.0))
                              : factor[j * 256 + j] > 0 ? rest / factor[j * 256 + j]
                                                        : 0;
      }
    }
    exl3::Moments moments(256);
    for (std::size_t column = 0; column < 256; ++column) {
      std::vector<float> row(256);
      for (std::size_t i = column; i < 256; ++i) row[i] = static_cast<float>(16 * factor[i * 256 + column]);
      moments.add(row.data());
    }
    return exl3::make_hessian(moments, signs_in);
  }
  exl3::QuantiseJob job(const exl3::Hessian& hessian) const {
    return {weight, 128, &hessian, signs_out, {3, Codebook::mul1}};
  }
};

}  // namespace

BOOST_AUTO_TEST_SUITE(exl3_quantise)

BOOST_AUTO_TEST_CASE(walks_come_as_near_to_their_targets_as_the_recorded_ones) {
  const GoldenFile golden("viterbi_mul1");
  for (int bits = 1; bits <= exl3::bits_max; ++bits) {
    const std::string prefix = "k" + std::to_string(bits);
    const auto input = golden.values<float>(prefix + ".input"), recorded = golden.values<float>(prefix + ".mse");
    exl3::TileQuantiser searcher({static_cast<std::uint8_t>(bits), Codebook::mul1});
    double error = 0, allowed = 0;
    for (std::size_t i = 0; i < 4; ++i) {
      exl3::States walk;
      error += searcher.quantise(tile(input, i), walk) / 256;
      allowed += recorded[i];
      BOOST_TEST(exl3::is_closed_walk(walk, bits));
      std::vector<std::uint16_t> words(static_cast<std::size_t>(16 * bits));
      exl3::pack_states(walk, bits, words);
      BOOST_TEST((exl3::unpack_states(words, bits) == walk));
    }
    BOOST_TEST(error <= 1.01 * allowed, prefix << ": " << error << " of " << allowed);
  }
}

BOOST_AUTO_TEST_CASE(a_walk_is_found_again_from_its_own_weights) {
  for (const Codebook codebook : {Codebook::inst3, Codebook::mcg, Codebook::mul1}) {
    const auto matrix = random_matrix(128, 128, {4, codebook}, 9);
    std::array<float, 256> weights{}, targets{};
    exl3::decode_tile(matrix.tile(0, 0), matrix.form, weights);
    for (int t = 0; t < 256; ++t) {
      const exl3::Cell cell = exl3::cell_of(t);
      targets[static_cast<std::size_t>(t)] = weights[static_cast<std::size_t>(cell.row * 16 + cell.col)];
    }
    exl3::States walk;
    BOOST_TEST(exl3::TileQuantiser(matrix.form).quantise(targets, walk) == 0.0);
  }
}

BOOST_AUTO_TEST_CASE(walks_are_closed_and_alike_on_every_instruction_set_whatever_the_targets) {
  auto targets = random_floats(256, 4);
  targets[7] = std::numeric_limits<float>::quiet_NaN();
  targets[8] = std::numeric_limits<float>::infinity();
  targets[9] = -1e30F;
  for (const int bits : {2, 3, 8}) {
    exl3::States first;
    exl3::TileQuantiser searcher({static_cast<std::uint8_t>(bits), Codebook::mul1});
    searcher.quantise(tile(targets, 0), first);
    BOOST_TEST(exl3::is_closed_walk(first, bits));
    for (const std::int64_t target : hwy::SupportedAndGeneratedTargets()) {
      if (target == HWY_EMU128 || target == HWY_SCALAR) continue;  // fused multiply-add in software: minutes
      hwy::SetSupportedTargetsForTest(target);
      exl3::States walk;
      searcher.quantise(tile(targets, 0), walk);
      BOOST_TEST((walk == first), hwy::TargetName(target));
    }
    hwy::SetSupportedTargetsForTest(0);
  }
}

BOOST_AUTO_TEST_CASE(a_calibrated_matrix_loses_no_more_than_the_recorded_one) {
  const GoldenMatrix golden;
  const exl3::Hessian hessian = golden.hessian();
  BOOST_REQUIRE(!hessian.factor.empty());
  ThreadPool pool(2);
  const exl3::Quantised result = exl3::quantise(golden.job(hessian), pool);
  BOOST_TEST_MESSAGE("scale " << result.scale << " proxy " << result.proxy_error << " weights " << result.weight_error);
  BOOST_TEST(result.proxy_error <= 1.05 * golden.metrics[2]);
  BOOST_TEST(result.weight_error <= 1.05 * golden.metrics[3]);
}

BOOST_AUTO_TEST_CASE(a_matrix_without_calibration_has_the_expected_error) {
  const GoldenMatrix golden;
  const exl3::Hessian identity = exl3::Hessian::identity(golden.signs_in);
  ThreadPool pool(2);
  const exl3::Quantised result = exl3::quantise(golden.job(identity), pool);
  BOOST_TEST(result.proxy_error <= 1.06 * exl3::expected_error({3, Codebook::mul1}));
  BOOST_TEST(result.weight_error <= 1.05 * golden.metrics[6]);
}

BOOST_AUTO_TEST_CASE(recorded_tensors_dequantise_to_the_recorded_weights) {
  const GoldenMatrix golden;
  const auto dense = exl3::dequantise(golden.file.matrix("q"));
  BOOST_TEST(relative_rms(dense, golden.file.values<float>("weight_dequant")) < 1e-6);
}

BOOST_AUTO_TEST_CASE(the_result_does_not_depend_on_threads) {
  const GoldenMatrix golden;
  const exl3::Hessian hessian = golden.hessian();
  auto job = golden.job(hessian);
  job.form.bits = 2;
  ThreadPool one(1), three(3);
  BOOST_TEST((exl3::quantise(job, one).matrix.trellis == exl3::quantise(job, three).matrix.trellis));
}

BOOST_AUTO_TEST_CASE(zero_outputs_stay_exactly_zero) {
  GoldenMatrix golden;
  for (std::size_t i = 0; i < 256; ++i) golden.weight[i * 128 + 5] = 0;
  const exl3::Hessian identity = exl3::Hessian::identity(golden.signs_in);
  auto job = golden.job(identity);
  job.form.bits = 2;
  ThreadPool pool(2);
  const auto matrix = exl3::quantise(job, pool).matrix;
  BOOST_TEST(matrix.svh[5] == 0);
  BOOST_TEST(exl3::dequantise(matrix)[17 * 128 + 5] == 0.0F);
}

BOOST_AUTO_TEST_CASE(moments_leave_rows_with_broken_values_out) {
  exl3::Moments moments(128);
  std::vector<float> row(128, 1.0F);
  moments.add(row.data());
  row[3] = std::numeric_limits<float>::infinity();
  moments.add(row.data());
  BOOST_TEST(moments.rows() == 1);
  BOOST_TEST(moments.sums()[3] == 1.0F);
  const exl3::Hessian nothing = exl3::make_hessian(exl3::Moments(128), exl3::random_signs(128, 1));
  BOOST_TEST(nothing.factor.empty());
  BOOST_TEST(nothing.rotated[0] == 1.0F);
}

BOOST_AUTO_TEST_CASE(bits_go_where_the_loss_is_and_meet_the_average) {
  const std::vector<exl3::BitGroup> groups{
      {"sensitive", 1000, 100.0, 2, 8}, {"tough", 1000, 0.01, 2, 8}, {"fixed", 500, 0.0, 6, 6}};
  const auto bits = exl3::allocate_bits(groups, {4.0, Codebook::mul1});
  BOOST_REQUIRE(bits.has_value());
  BOOST_TEST((*bits)[0] > (*bits)[1]);
  BOOST_TEST((*bits)[2] == 6);
  BOOST_TEST(1000 * (*bits)[0] + 1000 * (*bits)[1] + 3000 <= 4 * 2500);
  BOOST_TEST(1000 * (*bits)[0] + 1000 * (*bits)[1] + 3000 > 4 * 2500 - 1000);
}

BOOST_AUTO_TEST_CASE(a_budget_below_the_smallest_choices_is_refused_with_what_is_needed) {
  const std::vector<exl3::BitGroup> groups{{"a", 100, 1.0, 2, 8}, {"b", 100, 1.0, 4, 4}};
  const auto bits = exl3::allocate_bits(groups, {2.5, Codebook::mul1});
  BOOST_REQUIRE(!bits.has_value());
  BOOST_TEST(bits.error().message().find("at least 3.000") != std::string::npos);
  BOOST_TEST(!exl3::allocate_bits(std::vector<exl3::BitGroup>{{"c", 0, 1.0, 2, 8}}, {3.0, Codebook::mul1}).has_value());
}

BOOST_AUTO_TEST_SUITE_END()
