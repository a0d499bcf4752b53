// Row numbers against the published vectors and the reference's tiny model; chunking and dead positions.
#include "engram/hash.hpp"

#include <boost/test/unit_test.hpp>
#include <random>

#include "tests/engram/numbers_file.hpp"
#include "tests/engram/specs_fixture.hpp"

using namespace tandem;
using namespace tandem::engram;

namespace {

std::vector<RowId> hash_at_once(const Geometry& geometry, std::size_t layer, std::span<const ClassId> classes) {
  std::vector<RowId> rows(classes.size() * static_cast<std::size_t>(geometry.columns()));
  BOOST_REQUIRE(hash_rows(geometry, layer, {}, classes, rows).has_value());
  return rows;
}

std::vector<std::int64_t> numbers(std::span<const RowId> rows) {
  std::vector<std::int64_t> out;
  for (const RowId row : rows) out.push_back(index_of(row));
  return out;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(hash)

BOOST_AUTO_TEST_CASE(released_vectors_are_reproduced) {
  const auto golden = test::read_numbers("released.txt");
  const auto geometry = Geometry::make(test::released_spec()).value();
  const auto classes = test::convert<ClassId>(golden.at("classes"));
  int compared = 0;
  for (const std::size_t layer : {0U, 1U}) {
    const auto rows = hash_at_once(geometry, layer, classes);
    for (std::size_t p = 0; p < classes.size(); ++p) {
      const auto expected =
          golden.find("rows_" + std::to_string(geometry.layers[layer].layer) + "_" + std::to_string(p));
      if (expected == golden.end()) continue;
      BOOST_TEST(numbers(std::span(rows).subspan(p * 24, 24)) == expected->second, boost::test_tools::per_element());
      ++compared;
    }
  }
  BOOST_TEST(compared == 8);
}

BOOST_AUTO_TEST_CASE(the_reference_rows_of_the_tiny_model_are_reproduced) {
  const auto golden = test::read_numbers("tiny.txt");
  const auto geometry = Geometry::make(test::tiny_spec()).value();
  std::vector<ClassId> classes;
  for (std::size_t p = 0; p < golden.at("tokens").size(); ++p) {
    const auto token = static_cast<std::size_t>(golden.at("tokens")[p]);
    classes.push_back(golden.at("keep")[p] != 0 ? static_cast<ClassId>(golden.at("token_map")[token]) : dead_class);
  }
  const auto& expected = golden.at("row_ids");
  for (const std::size_t layer : {0U, 1U}) {
    const auto rows = numbers(hash_at_once(geometry, layer, classes));
    for (std::size_t i = 0; i < rows.size(); ++i) {
      const std::size_t p = i / 12;
      const bool is_dead = classes[p] == dead_class;
      BOOST_TEST_CONTEXT("layer " << layer << " position " << p) {
        BOOST_TEST(rows[i] == (is_dead ? -1 : expected[(p * 2 + layer) * 12 + i % 12]));
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(any_chunking_gives_the_rows_of_the_whole_sequence) {
  const auto geometry = Geometry::make(test::tiny_spec()).value();
  std::mt19937 random(20260101);
  std::vector<ClassId> classes(101);
  for (auto& id : classes) id = random() % 9 == 0 ? dead_class : static_cast<ClassId>(random() % 192);
  const auto whole = hash_at_once(geometry, 1, classes);
  for (int round = 0; round < 50; ++round) {
    std::vector<RowId> rows;
    for (std::size_t first = 0; first < classes.size();) {
      const std::size_t size = std::min<std::size_t>(random() % 7, classes.size() - first);  // empty chunks too
      std::vector<RowId> chunk(size * 12);
      const auto history = std::span(classes).first(first);
      BOOST_REQUIRE(hash_rows(geometry, 1, history.last(std::min<std::size_t>(first, 3)),
                              std::span(classes).subspan(first, size), chunk)
                        .has_value());
      rows.insert(rows.end(), chunk.begin(), chunk.end());
      first += size;
    }
    BOOST_TEST((rows == whole));
  }
}

BOOST_AUTO_TEST_CASE(a_longer_history_changes_nothing) {
  const auto geometry = Geometry::make(test::tiny_spec()).value();
  const std::vector<ClassId> classes{9, 8, 7, 6, 5, 4};
  const auto whole = hash_at_once(geometry, 0, classes);
  std::vector<RowId> last(12);
  BOOST_REQUIRE(hash_rows(geometry, 0, std::span(classes).first(5), std::span(classes).last(1), last).has_value());
  BOOST_TEST((std::vector<RowId>(whole.end() - 12, whole.end()) == last));
}

BOOST_AUTO_TEST_CASE(what_lies_before_a_dead_position_is_never_seen) {
  const auto geometry = Geometry::make(test::tiny_spec()).value();
  const auto after_five = hash_at_once(geometry, 0, std::vector<ClassId>{5, 6, dead_class, 8, 9, 10, 11});
  const auto after_two = hash_at_once(geometry, 0, std::vector<ClassId>{1, 2, dead_class, 8, 9, 10, 11});
  BOOST_TEST((std::vector<RowId>(after_five.begin() + 24, after_five.end()) ==
              std::vector<RowId>(after_two.begin() + 24, after_two.end())));
}

BOOST_AUTO_TEST_CASE(classes_and_sizes_that_do_not_fit_are_refused) {
  const auto geometry = Geometry::make(test::tiny_spec()).value();
  std::vector<RowId> rows(12);
  const std::vector<ClassId> highest{191}, beyond{192}, below{-2}, two{1, 2};
  BOOST_TEST(hash_rows(geometry, 0, {}, highest, rows).has_value());
  BOOST_TEST((hash_rows(geometry, 0, {}, beyond, rows).error().code == ErrorCode::out_of_range));
  BOOST_TEST((hash_rows(geometry, 0, {}, below, rows).error().code == ErrorCode::out_of_range));
  BOOST_TEST((hash_rows(geometry, 0, beyond, highest, rows).error().code == ErrorCode::out_of_range));
  BOOST_TEST((hash_rows(geometry, 0, {}, two, rows).error().code == ErrorCode::invalid_argument));
  BOOST_TEST((hash_rows(geometry, 2, {}, highest, rows).error().code == ErrorCode::invalid_argument));
  BOOST_TEST(hash_rows(geometry, 0, {}, {}, {}).has_value());
}

BOOST_AUTO_TEST_SUITE_END()
