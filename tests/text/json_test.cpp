// The JSON reader and writer: what is kept, what is refused, and Python's spelling of numbers.
#include "net/text/json/number.hpp"
#include "net/text/json/parse.hpp"
#include "net/text/json/write.hpp"
#include "tests/text/golden_fixture.hpp"

#include <boost/test/unit_test.hpp>

namespace tandem::net::text::test {
namespace {

std::string rewritten(std::string_view text) {
  return write_json(json(text));
}

std::string nested(std::size_t levels) {
  return std::string(levels, '[') + std::string(levels, ']');
}

}  // namespace

BOOST_AUTO_TEST_SUITE(json_documents)

BOOST_AUTO_TEST_CASE(numbers_are_written_in_pythons_spelling) {
  struct Row {
    const char *given, *expected;
  };
  for (const Row& row : std::initializer_list<Row>{{"0", "0"},
                                                   {"-0", "0"},
                                                   {"-0.0", "-0.0"},
                                                   {"7", "7"},
                                                   {"123456789012345678901234567890", "123456789012345678901234567890"},
                                                   {"2.50", "2.5"},
                                                   {"1.0", "1.0"},
                                                   {"1e20", "1e+20"},
                                                   {"1E5", "100000.0"},
                                                   {"1e15", "1000000000000000.0"},
                                                   {"1e16", "1e+16"},
                                                   {"12345678901234567.0", "1.2345678901234568e+16"},
                                                   {"0.0001", "0.0001"},
                                                   {"0.00001", "1e-05"},
                                                   {"1.5e-7", "1.5e-07"},
                                                   {"1e-310", "1e-310"},
                                                   {"0.1", "0.1"},
                                                   {"-123.456", "-123.456"},
                                                   {"1e100", "1e+100"},
                                                   {"1e999", "1e999"}}) {
    BOOST_TEST(rewritten(row.given) == row.expected);
  }
}

BOOST_AUTO_TEST_CASE(keys_keep_their_order_and_a_repeated_key_its_first_place_and_last_value) {
  BOOST_TEST(rewritten(R"({"b":1,"a":2,"b":3})") == R"({"b": 3, "a": 2})");
  std::string many = "{", expected = "{";
  for (int i = 0; i < 40; ++i) {
    many += "\"k" + std::to_string(i) + "\":0,";
    expected += (i > 0 ? ", " : "") + std::string("\"k") + std::to_string(i) + "\": " +
                (i == 3    ? "1"
                 : i == 30 ? "2"
                           : "0");
  }
  BOOST_TEST(rewritten(many + R"("k3":1,"k30":2})") == expected + "}");
}

BOOST_AUTO_TEST_CASE(strings_escape_quotes_backslashes_and_controls_only) {
  BOOST_TEST(rewritten(R"(["\u00e9\n\t\r\b\f\"\\\/\u0001\u007f"])") == "[\"é\\n\\t\\r\\b\\f\\\"\\\\/\\u0001\x7f\"]");
}

BOOST_AUTO_TEST_CASE(a_surrogate_pair_is_one_character_and_a_lone_surrogate_the_replacement) {
  BOOST_TEST(*json(R"("\ud83d\ude00")").if_string() == "😀");
  BOOST_TEST(*json(R"("a\ud83d")").if_string() == "a\xEF\xBF\xBD");
  BOOST_TEST(*json(R"("\ud83dx")").if_string() == "\xEF\xBF\xBDx");
  BOOST_TEST(*json(R"("\ude00")").if_string() == "\xEF\xBF\xBD");
  BOOST_TEST(*json(R"("\ud83d\ud83d\ude00")").if_string() == "\xEF\xBF\xBD😀");
  BOOST_TEST(*json(R"("\ud83d\u0041")").if_string() ==
             "\xEF\xBF\xBD"
             "A");
}

BOOST_AUTO_TEST_CASE(text_that_is_not_json_is_refused) {
  for (const char* bad : {"",
                          " ",
                          "{",
                          "[1,",
                          "[1,]",
                          "{\"a\":1,}",
                          "{\"a\"}",
                          "{a:1}",
                          "01",
                          "1.",
                          ".5",
                          "+1",
                          "1e",
                          "-",
                          "tru",
                          "nul",
                          "NaN",
                          "Infinity",
                          "\"abc",
                          "\"\\x\"",
                          "\"\\u12\"",
                          "\"\\u12g4\"",
                          "\"\n\"",
                          "1 2",
                          "{}{}",
                          "[1]]",
                          "\"\xff\"",
                          "\"\xc3\"",
                          "\"\xed\xa0\x80\"",
                          "'a'",
                          "\xEF\xBB\xBF"
                          "1"}) {
    BOOST_TEST_CONTEXT(bad) {
      BOOST_TEST(!is_json(bad));
    }
  }
}

BOOST_AUTO_TEST_CASE(an_error_says_where_and_what) {
  const auto parsed = parse_json(R"({"a": tru})");
  BOOST_REQUIRE(parsed.has_error());
  BOOST_TEST((parsed.error().code == ErrorCode::bad_format));
  BOOST_TEST(parsed.error().message() == "byte 6: 't', expected a value");
}

BOOST_AUTO_TEST_CASE(nesting_is_allowed_to_128_levels_and_not_to_129) {
  BOOST_TEST(is_json(nested(128)));
  BOOST_TEST(!is_json(nested(129)));
  BOOST_TEST(!is_json(std::string(1 << 20, '[')));
}

BOOST_AUTO_TEST_CASE(a_document_has_as_many_values_as_memory_is_meant_for_and_no_more) {
  std::string most = "[";
  for (std::size_t i = 2; i < json_values_max; ++i) most += "0,";
  BOOST_TEST(is_json(most + "0]"));
  const auto refused = parse_json(most + "0,0]");
  BOOST_REQUIRE(refused.has_error());
  BOOST_TEST((refused.error().code == ErrorCode::resource));
  BOOST_TEST(refused.error().message().find("2000000 values") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(an_integer_may_be_spelled_with_a_point_but_not_have_a_fraction) {
  BOOST_TEST(to_integer({"7"}).value() == 7);
  BOOST_TEST(to_integer({"7.0"}).value() == 7);
  BOOST_TEST(to_integer({"70e-1"}).value() == 7);
  BOOST_TEST(to_integer({"-9223372036854775808"}).value() == INT64_MIN);
  BOOST_TEST(!to_integer({"9223372036854775808"}));
  BOOST_TEST(!to_integer({"7.5"}));
  BOOST_TEST(!to_integer({"1e30"}));
  BOOST_TEST(!to_double({"1e999"}));
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace tandem::net::text::test
