// The reader on simdjson against the plain reference: same verdict, same value, same words of error on every input.
//
// The inputs are a table of documents at the grammar's edges, every cut and every deletion of one rich document, and
// pseudo-random bytes, token soups and mutations (fixed seeds, so a failure repeats).
#include "net/text/json/parse.hpp"
#include "tests/text/json_reference_fixture.hpp"

#include <array>
#include <boost/test/unit_test.hpp>
#include <random>
#include <thread>

namespace tandem::net::text::test {
namespace {

using namespace std::string_literals;

// One of everything: nesting, empty containers, every escape, pairs and lone surrogates, all lengths of UTF-8, numbers.
const std::string rich_document =
    R"({"model":"m","messages":[{"role":"user","content":"a\n\t\"\\\/\b\f\r\u00e9 é 日本 😀 \ud83d\ude00 \ud83d"}],)"
    R"( "temperature" : 0.70e+0, "seed":-12345678901234567890, "stop":[ ], "tools":[{}, {"k\u0041\ude00":[[1],[2,3]]}],)"
    R"("stream":true,"store":false,"user":null,"seed":0})";

void check_same(const std::string& text) {
  const std::string expected = outcome(reference_parse_json(text));
  const std::string found = outcome(parse_json(text));
  if (found != expected) BOOST_TEST_CONTEXT("input: " << text) BOOST_TEST(found == expected);
}

void check_verdict(const std::string& text, bool is_valid) {
  BOOST_TEST_CONTEXT("input: " << text) {
    BOOST_TEST(parse_json(text).has_value() == is_valid);
    BOOST_TEST(outcome(parse_json(text)) == outcome(reference_parse_json(text)));
  }
}

// Joins tokens that are right in some places and wrong in others.
std::string token_soup(std::mt19937& random) {
  static constexpr std::array tokens = {
      "{",    "}",     "[",    "]",  ",",  ":",   "\"a\"", "\"b\":", "\"\\ud800\"", "\"\\u00e9\":", "true", "false",
      "null", "0",     "-1.5", "01", "1e", " ",   "\n",    "\"",     "\\",          "tru",          "-",    "[[1],[2]]",
      "{}",   "\"\"1", "1\"a", "\f", "{,", "[1,", "é",     "\xFF",   "\x1A",        "{\"a\":1,",    "1,2",  "/**/"};
  std::string text;
  for (auto count = 1 + random() % 10; count > 0; --count) text += tokens[random() % tokens.size()];
  return text;
}

std::string random_bytes(std::mt19937& random) {
  std::string text(random() % 200, '\0');
  for (char& c : text) c = static_cast<char>(random());
  return text;
}

std::string mutation(std::mt19937& random) {
  std::string text = rich_document;
  for (auto count = 1 + random() % 3; count > 0; --count) {
    static constexpr std::string_view likely = "{}[]:,\"\\ 019-+.eEutfn\x01\x7F\x80\xC3\xED\xFF";
    const char byte = random() % 4 == 0 ? static_cast<char>(random()) : likely[random() % likely.size()];
    const std::size_t at = random() % text.size();
    if (random() % 2 == 0) {
      text[at] = byte;
    } else {
      text.insert(at, 1, byte);
    }
  }
  return text;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(json_reader_and_reference)

BOOST_AUTO_TEST_CASE(documents_at_the_edge_of_the_grammar_are_read) {
  for (const std::string& text : {"0"s,
                                  "-0"s,
                                  "1e999"s,
                                  "-0.0e-0"s,
                                  "1E+2"s,
                                  "18446744073709551616"s,
                                  "123456789012345678901234567890.5"s,
                                  " 1 "s,
                                  "\t\r\n null \n"s,
                                  "true"s,
                                  "false"s,
                                  "\"\""s,
                                  "\"a\""s,
                                  R"("\u0000")"s,
                                  R"("\uD83D\uDE00")"s,
                                  R"("\uD83D")"s,
                                  R"("\ude00\ud83d")"s,
                                  R"("\\ud83d")"s,
                                  R"("\\\\")"s,
                                  R"("\\\"")"s,
                                  R"("\"")"s,
                                  "\"\x7F\""s,
                                  "\"/\""s,
                                  "[]"s,
                                  "{}"s,
                                  "[ ]"s,
                                  "{ }"s,
                                  "[[]]"s,
                                  "[{}]"s,
                                  "[{},[]]"s,
                                  "[1,2]"s,
                                  "[ 1 , 2 ]"s,
                                  R"({"":0})"s,
                                  R"({"a":{"a":{}}})"s,
                                  R"({"a":1,"a":2})"s,
                                  R"({"\u0061":1,"b":2,"a":3})"s,
                                  R"({"\ud83d":1})"s,
                                  R"(["]"])"s,
                                  R"(["}",{"]":"["}])"s,
                                  R"("],[")"s,
                                  "\"\xF4\x8F\xBF\xBF\""s,
                                  "\"\xE2\x80\xA8\""s,
                                  "[true ,false\n,null\t]"s}) {
    check_verdict(text, true);
  }
}

BOOST_AUTO_TEST_CASE(texts_just_outside_the_grammar_are_refused) {
  for (const std::string& text : {""s,
                                  " "s,
                                  "\0"s,
                                  "1\0"s,
                                  "]"s,
                                  "["s,
                                  "[["s,
                                  "[]]"s,
                                  "[[]"s,
                                  "}"s,
                                  "{"s,
                                  "{}}"s,
                                  "{}{}"s,
                                  "[][]"s,
                                  "1,2"s,
                                  "1 2"s,
                                  "1],[2"s,
                                  "1]"s,
                                  "[1"s,
                                  ","s,
                                  ",1"s,
                                  "1,"s,
                                  ":"s,
                                  "[,]"s,
                                  "[,1]"s,
                                  "[1,]"s,
                                  "[1,,2]"s,
                                  "[1 2]"s,
                                  "[1:2]"s,
                                  "[1}"s,
                                  "{1:2}"s,
                                  "{,}"s,
                                  "{\"a\"}"s,
                                  "{\"a\":}"s,
                                  "{\"a\":1,}"s,
                                  "{\"a\":1 \"b\":2}"s,
                                  "{\"a\",1}"s,
                                  "{\"a\"::1}"s,
                                  "{\"a\":1]"s,
                                  "{\"a\":[}"s,
                                  "[{]"s,
                                  "01"s,
                                  "-"s,
                                  "--1"s,
                                  "+1"s,
                                  ".5"s,
                                  "1."s,
                                  "1.e1"s,
                                  "1e"s,
                                  "1e+"s,
                                  "0x1"s,
                                  "1a"s,
                                  "-01"s,
                                  "1 e1"s,
                                  "[1,nul]"s,
                                  "[tru]"s,
                                  "[truee]"s,
                                  "[True]"s,
                                  "nullnull"s,
                                  "NaN"s,
                                  "-Infinity"s,
                                  "'a'"s,
                                  "a"s,
                                  "\""s,
                                  "\"a"s,
                                  "\"a\\\""s,
                                  "\"a\\"s,
                                  R"("\x")"s,
                                  R"("\u12")"s,
                                  R"("\u12g4")"s,
                                  R"("\ud83d\u12g4")"s,
                                  "\"a\"b"s,
                                  "\"a\"\"b\""s,
                                  "1\"a\""s,
                                  "[1\"a\"]"s,
                                  "\"\t\""s,
                                  "\"\n\""s,
                                  "\"\0\""s,
                                  "\"\x80\""s,
                                  "\"\xC3\""s,
                                  "\"\xED\xA0\x80\""s,
                                  "\"\xC0\x80\""s,
                                  "\"\xF4\x90\x80\x80\""s,
                                  "\xFF"s,
                                  "\xEF\xBB\xBF{}"s,
                                  "[1]//"s,
                                  "[1/**/]"s,
                                  "[1\f]"s,
                                  "[1\x0C"
                                  "2]"s,
                                  "[1\x1A"
                                  "2]"s,
                                  "[1\xC2\xA0]"s}) {
    check_verdict(text, false);
  }
}

BOOST_AUTO_TEST_CASE(nesting_ends_at_the_same_level) {
  for (const std::size_t levels : {1, 127, 128, 129, 1500}) {
    std::string objects;
    for (std::size_t i = 0; i < levels; ++i) objects += "{\"a\":";
    check_verdict(std::string(levels, '[') + std::string(levels, ']'), levels <= json_depth_max);
    check_verdict(objects + "1" + std::string(levels, '}'), levels <= json_depth_max);
  }
}

BOOST_AUTO_TEST_CASE(every_truncation_is_refused) {
  check_verdict(rich_document, true);
  for (std::size_t bytes = 0; bytes < rich_document.size(); ++bytes)
    check_verdict(rich_document.substr(0, bytes), false);
}

BOOST_AUTO_TEST_CASE(every_deletion_of_one_byte_is_judged_alike) {
  for (std::size_t at = 0; at < rich_document.size(); ++at) check_same(std::string(rich_document).erase(at, 1));
}

BOOST_AUTO_TEST_CASE(random_inputs_are_judged_alike) {
  constexpr int rounds = 8000;
  std::mt19937 random(20240917);
  for (int round = 0; round < rounds; ++round) {
    check_same(random_bytes(random));
    check_same(token_soup(random));
    check_same(mutation(random));
  }
}

// simdjson works in blocks of 64 bytes: tokens must survive every position inside one.
BOOST_AUTO_TEST_CASE(white_space_before_a_document_moves_nothing) {
  for (std::size_t spaces = 0; spaces < 130; ++spaces) {
    const auto moved = parse_json(std::string(spaces, ' ') + rich_document);
    BOOST_TEST(outcome(moved) == outcome(reference_parse_json(rich_document)));
  }
}

BOOST_AUTO_TEST_CASE(long_strings_and_large_documents_leave_the_reader_usable) {
  const std::string letters(3 << 20, 'x');
  std::string escapes;
  for (int i = 0; i < 100'000; ++i) escapes += "\\n\\\\";
  check_same("\"" + letters + "\"");
  check_same("[\"" + escapes + "\",\"\\ud83d" + escapes + "\"]");
  check_same("\"" + letters);
  check_same(rich_document);
}

BOOST_AUTO_TEST_CASE(threads_read_at_the_same_time_without_mixing) {
  const std::string expected = outcome(reference_parse_json(rich_document));
  std::array<int, 4> mistakes = {};
  std::vector<std::jthread> threads;
  for (int& count : mistakes) {
    threads.emplace_back([&count, &expected] {
      for (int round = 0; round < 200; ++round) count += outcome(parse_json(rich_document)) != expected;
    });
  }
  threads.clear();
  for (const int count : mistakes) BOOST_TEST(count == 0);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace tandem::net::text::test
