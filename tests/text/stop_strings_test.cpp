// Stop strings: matched across pieces, held back no further than needed.
#include "net/text/stop_strings.hpp"
#include "tests/text/golden_fixture.hpp"

#include <boost/test/unit_test.hpp>
#include <random>

namespace tandem::net::text::test {
namespace {

std::string filtered(const std::vector<std::string>& stops, std::string_view text, std::size_t piece_bytes,
                     bool includes) {
  StopFilter filter(stops, includes);
  std::string shown;
  for (std::size_t i = 0; i < text.size(); i += piece_bytes) shown += filter.push(text.substr(i, piece_bytes));
  return shown + filter.release();
}

}  // namespace

BOOST_AUTO_TEST_SUITE(stop_strings)

BOOST_AUTO_TEST_CASE(only_a_tail_that_may_become_a_stop_string_is_held_back) {
  StopFilter filter({"END", "EXIT"}, false);
  BOOST_TEST(filter.push("a E") == "a ");
  BOOST_TEST(filter.push("X") == "");
  BOOST_TEST(filter.push("Y") == "EXY");
  BOOST_TEST(filter.push("EN") == "");
  BOOST_TEST(filter.push("D rest") == "");
  BOOST_TEST(*filter.matched() == "END");
  BOOST_TEST(filter.push("more") == "");
  BOOST_TEST(filter.release() == "");
}

BOOST_AUTO_TEST_CASE(the_match_that_completes_first_wins_and_the_longest_of_those) {
  BOOST_TEST(filtered({"bcd", "c"}, "abcde", 100, false) == "ab");
  BOOST_TEST(filtered({"c", "bc"}, "abcde", 100, false) == "a");
  BOOST_TEST(filtered({"abcx", "bc"}, "abcx", 100, false) == "a");
}

BOOST_AUTO_TEST_CASE(the_match_is_shown_only_if_it_is_asked_for) {
  BOOST_TEST(filtered({"STOP"}, "one STOP two", 3, false) == "one ");
  BOOST_TEST(filtered({"STOP"}, "one STOP two", 3, true) == "one STOP");
}

BOOST_AUTO_TEST_CASE(pieces_never_change_the_result) {
  std::mt19937 random(99);
  const auto word = [&](std::size_t size_max) {
    std::string text;
    for (std::size_t i = 0, n = 1 + random() % size_max; i < n; ++i)
      text.push_back(static_cast<char>('a' + random() % 2));
    return text;
  };
  for (int round = 0; round < 2000; ++round) {
    const std::vector<std::string> stops = {word(6) + "b", word(4) + "a", word(8)};
    const std::string text = word(40);
    const std::string whole = filtered(stops, text, 1000, round % 2 == 0);
    for (const std::size_t piece_bytes : {1u, 2u, 3u, 5u}) {
      BOOST_REQUIRE(filtered(stops, text, piece_bytes, round % 2 == 0) == whole);
    }
  }
}

BOOST_AUTO_TEST_CASE(the_field_takes_a_string_or_up_to_sixteen_of_them) {
  const auto read = [](const std::string& text) {
    const Json value = json(text);
    return read_stop(&value, "stop");
  };
  std::string sixteen = "[\"0\"";
  for (int i = 1; i < 16; ++i) sixteen += ",\"" + std::to_string(i) + "\"";
  BOOST_TEST(read_stop(nullptr, "stop")->empty());
  BOOST_TEST(read("null")->empty());
  BOOST_TEST(read("[]")->empty());
  BOOST_TEST(read("\"x\"")->size() == 1u);
  BOOST_TEST(read(sixteen + "]")->size() == 16u);
  BOOST_TEST(read(sixteen + ",\"16\"]").error().param == "stop");
  BOOST_TEST(read("\"" + std::string(256, 'x') + "\"").has_value());
  for (const std::string& bad : {std::string("\"\""), std::string("[\"\"]"), std::string("[1]"), std::string("7"),
                                 std::string("{}"), "\"" + std::string(257, 'x') + "\""}) {
    BOOST_TEST(read(bad).error().status == 400);
  }
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace tandem::net::text::test
