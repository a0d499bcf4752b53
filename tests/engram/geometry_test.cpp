// Multipliers, primes and offsets against the published numbers, and every refusal of a bad configuration.
#include "engram/geometry.hpp"

#include <boost/test/unit_test.hpp>

#include "engram/numpy_random.hpp"
#include "tests/engram/numbers_file.hpp"
#include "tests/engram/specs_fixture.hpp"

using namespace tandem;
using namespace tandem::engram;

namespace {

using U64s = std::vector<std::uint64_t>;

void check_layers(const Geometry& geometry, const U64s& multipliers, const U64s& primes) {
  U64s got_multipliers, got_primes;
  for (const auto& layer : geometry.layers) {
    got_multipliers.insert(got_multipliers.end(), layer.multipliers.begin(), layer.multipliers.end());
    got_primes.insert(got_primes.end(), layer.primes.begin(), layer.primes.end());
  }
  BOOST_TEST(got_multipliers == multipliers, boost::test_tools::per_element());
  BOOST_TEST(got_primes == primes, boost::test_tools::per_element());
}

ErrorCode code_of(const GeometrySpec& spec) {
  const auto made = Geometry::make(spec);
  BOOST_REQUIRE(!made);
  return made.error().code;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(geometry)

BOOST_AUTO_TEST_CASE(the_released_configuration_gives_the_published_constants) {
  const auto golden = test::read_numbers("released.txt");
  const auto made = Geometry::make(test::released_spec());
  BOOST_REQUIRE(made.has_value());
  check_layers(*made, test::convert<std::uint64_t>(golden.at("multipliers")),
               test::convert<std::uint64_t>(golden.at("primes")));
  BOOST_TEST(made->layers[0].offsets == test::convert<std::uint64_t>(golden.at("offsets_1")),
             boost::test_tools::per_element());
  BOOST_TEST(made->layers[1].offsets == test::convert<std::uint64_t>(golden.at("offsets_14")),
             boost::test_tools::per_element());
  BOOST_TEST(made->columns() == 24);
}

BOOST_AUTO_TEST_CASE(the_tiny_configuration_gives_the_reference_constants) {
  const auto golden = test::read_numbers("tiny.txt");
  const auto made = Geometry::make(test::tiny_spec());
  BOOST_REQUIRE(made.has_value());
  check_layers(*made, test::convert<std::uint64_t>(golden.at("multipliers")),
               test::convert<std::uint64_t>(golden.at("primes")));
  U64s offsets;
  for (const auto& layer : made->layers) offsets.insert(offsets.end(), layer.offsets.begin(), layer.offsets.end());
  BOOST_TEST(offsets == test::convert<std::uint64_t>(golden.at("offsets")), boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(a_bound_of_one_always_draws_zero) {
  NumpyRandom random(7);
  for (int i = 0; i < 10; ++i) BOOST_TEST(random.below(1) == 0U);
}

BOOST_AUTO_TEST_CASE(multipliers_stay_odd_and_below_the_overflow_bound_for_any_vocabulary) {
  for (const std::int64_t classes : {1LL, 2LL, 191LL, 99'092LL, 2'147'483'647LL}) {
    for (const auto multiplier : hash_multipliers(3, classes, 16)) {
      BOOST_TEST(multiplier % 2 == 1U);
      BOOST_TEST(multiplier <= (1ULL << 63) / static_cast<std::uint64_t>(classes));
    }
  }
}

BOOST_AUTO_TEST_CASE(declared_rows_that_are_one_off_are_a_mismatch) {
  auto spec = test::released_spec();
  spec.rows[1] += 1;
  const auto made = Geometry::make(spec);
  BOOST_REQUIRE(!made);
  BOOST_TEST((made.error().code == ErrorCode::mismatch));
  BOOST_TEST(made.error().where.find("layer 14") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(impossible_numbers_are_refused_by_name) {
  struct Case {
    const char* field;
    void (*spoil)(GeometrySpec&);
  };
  const Case cases[] = {
      {"engram_max_ngram_size", [](GeometrySpec& s) { s.max_ngram = 1; }},
      {"engram_n_heads", [](GeometrySpec& s) { s.heads = 0; }},
      {"engram_head_dim", [](GeometrySpec& s) { s.head_dim = 48; }},
      {"engram_vocab_size", [](GeometrySpec& s) { s.vocab_size = 0; }},
      {"engram_vocab_size", [](GeometrySpec& s) { s.vocab_size = 200'000'000; }},
      {"engram_compressed_vocab_size", [](GeometrySpec& s) { s.compressed_vocab_size = 0; }},
      {"class of engram_pad_token_id", [](GeometrySpec& s) { s.pad_class = 192; }},
      {"engram_num_embeddings", [](GeometrySpec& s) { s.rows.pop_back(); }},
      {"engram_layer_ids",
       [](GeometrySpec& s) {
         s.layers = {4, 1};
       }},
      {"engram_layer_ids",
       [](GeometrySpec& s) {
         s.layers = {4, 4};
       }},
  };
  for (const Case& item : cases) {
    auto spec = test::tiny_spec();
    item.spoil(spec);
    BOOST_TEST_CONTEXT(item.field) {
      BOOST_TEST((code_of(spec) == ErrorCode::bad_config));
      BOOST_TEST(Geometry::make(spec).error().where == item.field);
    }
  }
}

BOOST_AUTO_TEST_CASE(a_model_without_engram_layers_has_an_empty_geometry) {
  auto spec = test::tiny_spec();
  spec.layers.clear();
  spec.rows.clear();
  const auto made = Geometry::make(spec);
  BOOST_REQUIRE(made.has_value());
  BOOST_TEST(made->layers.empty());
}

BOOST_AUTO_TEST_CASE(two_ranks_own_the_published_row_ranges) {
  const auto made = Geometry::make(test::released_spec());
  BOOST_REQUIRE(made.has_value());
  const auto first = made->owned(0, 0, 2);
  const auto second = made->owned(1, 1, 2);
  BOOST_REQUIRE((first.has_value() && second.has_value()));
  BOOST_TEST(first->last_column == 12);
  BOOST_TEST(first->first_row == 0);
  BOOST_TEST(first->last_row == 192'001'740);
  BOOST_TEST(second->first_row == 192'007'016);
  BOOST_TEST(second->last_row == 384'016'682);
}

BOOST_AUTO_TEST_CASE(ranks_cover_every_column_once_or_are_refused) {
  const auto made = Geometry::make(test::tiny_spec());
  BOOST_REQUIRE(made.has_value());
  for (int ranks = 1; ranks <= 13; ++ranks) {
    int column = 0;
    bool refused = false;
    for (int rank = 0; rank < ranks; ++rank) {
      const auto owned = made->owned(0, rank, ranks);
      refused = refused || !owned;
      if (!owned) continue;
      BOOST_TEST(owned->first_column == column);
      BOOST_TEST(owned->last_column > column);
      column = owned->last_column;
    }
    BOOST_TEST((refused || column == made->columns()));
    if (ranks > 12) BOOST_TEST(refused);
  }
}

BOOST_AUTO_TEST_SUITE_END()
