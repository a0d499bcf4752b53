// The format itself, bit by bit, against recorded values: codebooks, tiles of every width, packing, transforms.
#include <boost/test/unit_test.hpp>

#include <numeric>

#include "gpu/exl3/codebook.hpp"
#include "gpu/exl3/hadamard.hpp"
#include "gpu/exl3/tile.hpp"
#include "gpu/numeric/bf16.hpp"
#include "tests/exl3/golden_fixture.hpp"

using namespace tandem::gpu;
using namespace tandem::gpu::test;
using exl3::Codebook;

namespace {

constexpr Codebook codebooks[] = {Codebook::inst3, Codebook::mcg, Codebook::mul1};

std::size_t count_different(const std::vector<std::uint16_t>& a, const std::vector<std::uint16_t>& b) {
  std::size_t count = a.size() == b.size() ? 0 : 1;
  for (std::size_t i = 0; i < std::min(a.size(), b.size()); ++i) count += a[i] != b[i] ? 1 : 0;
  return count;
}

std::span<const std::uint16_t> tile_words(const std::vector<std::uint16_t>& words, int tile, int bits) {
  const auto size = static_cast<std::size_t>(16 * bits);
  return std::span(words).subspan(static_cast<std::size_t>(tile) * size, size);
}

}  // namespace

BOOST_AUTO_TEST_SUITE(exl3_codec)

BOOST_AUTO_TEST_CASE(every_half_precision_code_survives_decoding_and_encoding) {
  for (std::uint32_t code = 0; code < 65536; ++code) {
    const auto half = static_cast<std::uint16_t>(code);
    const float value = f16_to_float(half);
    if (std::isnan(value)) continue;
    BOOST_REQUIRE(float_to_f16(value) == half);
  }
  BOOST_TEST(float_to_f16(1.0F + 0x1p-11F) == 0x3C00);  // a tie goes to even
  BOOST_TEST(float_to_f16(1.0F + 0x1.8p-10F) == 0x3C02);
  BOOST_TEST(float_to_f16(65519.0F) == 0x7BFF);
  BOOST_TEST(float_to_f16(65520.0F) == 0x7C00);
  BOOST_TEST(float_to_f16(-0x1p-25F) == 0x8000);
  BOOST_TEST(float_to_f16(0x1.8p-25F) == 0x0001);
}

BOOST_AUTO_TEST_CASE(all_states_of_all_codebooks_have_the_recorded_weights) {
  const GoldenFile golden("codebook");
  for (const Codebook codebook : codebooks) {
    const auto expected = golden.values<std::uint16_t>(std::string("codebook.") + exl3::to_string(codebook));
    std::vector<std::uint16_t> found;
    for (const float weight : exl3::weights_of_states(codebook)) found.push_back(float_to_f16(weight));
    BOOST_TEST(count_different(found, expected) == 0U);
  }
}

BOOST_AUTO_TEST_CASE(codebook_names_are_read_back_and_others_refused) {
  for (const Codebook codebook : codebooks) {
    BOOST_TEST((exl3::parse_codebook(exl3::to_string(codebook)) == codebook));
  }
  BOOST_TEST(!exl3::parse_codebook("mul2").has_value());
  BOOST_TEST(!exl3::parse_codebook("").has_value());
}

BOOST_AUTO_TEST_CASE(stream_positions_lie_where_the_recorded_permutation_says) {
  const auto perm = GoldenFile("codebook").values<std::uint16_t>("tile_perm");
  for (int t = 0; t < exl3::tile_weights; ++t) {
    const exl3::Cell cell = exl3::cell_of(t);
    BOOST_TEST(cell.row * 16 + cell.col == perm[static_cast<std::size_t>(t)]);
    BOOST_TEST(exl3::position_of(cell) == t);
  }
}

BOOST_AUTO_TEST_CASE(tiles_of_every_width_and_codebook_decode_to_the_recorded_bits) {
  const GoldenFile golden("tiles");
  for (int bits = 1; bits <= exl3::bits_max; ++bits) {
    for (const Codebook codebook : codebooks) {
      const std::string prefix = "k" + std::to_string(bits) + "." + exl3::to_string(codebook);
      const auto words = golden.values<std::uint16_t>(prefix + ".trellis");
      std::vector<std::uint16_t> found;
      for (int tile = 0; tile < 6; ++tile) {
        std::array<float, exl3::tile_weights> weights{};
        exl3::decode_tile(tile_words(words, tile, bits), {static_cast<std::uint8_t>(bits), codebook}, weights);
        for (const float weight : weights) found.push_back(float_to_f16(weight));
      }
      BOOST_TEST(count_different(found, golden.values<std::uint16_t>(prefix + ".weight")) == 0U, prefix);
    }
  }
}

BOOST_AUTO_TEST_CASE(unpacked_states_are_the_recorded_closed_walks_and_pack_to_the_same_words) {
  const GoldenFile golden("tiles");
  for (int bits = 1; bits <= exl3::bits_max; ++bits) {
    const std::string prefix = "k" + std::to_string(bits) + ".mul1";
    const auto words = golden.values<std::uint16_t>(prefix + ".trellis");
    std::vector<std::uint16_t> found, packed(words.size());
    for (int tile = 0; tile < 6; ++tile) {
      const exl3::States walk = exl3::unpack_states(tile_words(words, tile, bits), bits);
      found.insert(found.end(), walk.begin(), walk.end());
      BOOST_TEST(exl3::is_closed_walk(walk, bits));
      const auto size = static_cast<std::size_t>(16 * bits);
      exl3::pack_states(walk, bits, std::span(packed).subspan(static_cast<std::size_t>(tile) * size, size));
    }
    BOOST_TEST(count_different(found, golden.values<std::uint16_t>(prefix + ".states")) == 0U, prefix);
    BOOST_TEST(count_different(packed, words) == 0U, prefix);
  }
}

BOOST_AUTO_TEST_CASE(a_flipped_stream_bit_changes_only_the_states_whose_window_holds_it) {
  for (int bits = 1; bits <= exl3::bits_max; ++bits) {
    const auto matrix = random_matrix(128, 128, {static_cast<std::uint8_t>(bits), Codebook::mul1}, 5);
    std::vector<std::uint16_t> words(matrix.tile(0, 0).begin(), matrix.tile(0, 0).end());
    const exl3::States before = exl3::unpack_states(words, bits);
    for (std::size_t bit = 0; bit < words.size() * 16; bit += 7) {
      words[bit / 16] ^= static_cast<std::uint16_t>(1U << (bit % 16));
      const exl3::States after = exl3::unpack_states(words, bits);
      words[bit / 16] ^= static_cast<std::uint16_t>(1U << (bit % 16));
      int changed = 0;
      for (std::size_t t = 0; t < before.size(); ++t) changed += before[t] != after[t] ? 1 : 0;
      BOOST_TEST((changed == 16 / bits || changed == (16 + bits - 1) / bits));
    }
  }
}

BOOST_AUTO_TEST_CASE(a_walk_with_one_foreign_state_is_not_closed) {
  const auto words = GoldenFile("tiles").values<std::uint16_t>("k3.mul1.trellis");
  exl3::States walk = exl3::unpack_states(tile_words(words, 0, 3), 3);
  walk[100] ^= 0x8000;
  BOOST_TEST(!exl3::is_closed_walk(walk, 3));
}

BOOST_AUTO_TEST_CASE(the_transform_gives_the_recorded_values_and_is_its_own_inverse) {
  const GoldenFile golden("codebook");
  const auto x = golden.values<float>("hadamard.x"), expected = golden.values<float>("hadamard.y");
  std::vector<float> y = x;
  exl3::transform_rows(y.data(), 1, 128);
  BOOST_TEST(relative_rms(y, expected) < 3e-7);
  exl3::transform_rows(y.data(), 1, 128);
  BOOST_TEST(relative_rms(y, x) < 3e-7);
  std::vector<float> column = x;
  exl3::transform_columns(column.data(), 128, 1);
  BOOST_TEST(relative_rms(column, expected) < 3e-7);
}

BOOST_AUTO_TEST_CASE(whole_matrices_dequantise_to_the_recorded_weights) {
  const GoldenFile golden("linear");
  for (const char* name : {"mul1_k3", "mcg_k2", "3inst_k6_bias"}) {
    const auto matrix = golden.matrix(name);
    BOOST_TEST(relative_rms(exl3::decode_inner(matrix), golden.halves(std::string(name) + ".weight_inner")) == 0.0);
    BOOST_TEST(relative_rms(exl3::dequantise(matrix), golden.values<float>(std::string(name) + ".weight")) < 1e-6);
  }
}

BOOST_AUTO_TEST_SUITE_END()
