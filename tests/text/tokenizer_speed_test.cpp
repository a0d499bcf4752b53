// Prints how fast text is encoded; never fails on a time.
//
// Run with --run_test=tokenizer_speed --log_level=message; the vocabulary is that of the tiny model.
#include "net/text/tokenizer.hpp"
#include "tests/build_paths.hpp"

#include <boost/test/unit_test.hpp>
#include <chrono>
#include <fstream>
#include <random>
#include <sstream>

namespace tandem::net::text::test {
namespace {

std::string source_text() {
  std::string all;
  for (const char* name :
       {"net/text/tokenizer_file.cpp", "net/text/turn_parser.cpp", "net/text/json/parse.cpp", "net/text/README.md"}) {
    std::ifstream stream(source_folder().string() + "/" + name, std::ios::binary);
    std::ostringstream text;
    text << stream.rdbuf();
    all += text.str();
  }
  return all;
}

std::string random_words(std::size_t bytes) {
  std::mt19937 random(1);
  std::string text;
  while (text.size() < bytes) text.push_back(random() % 7 == 0 ? ' ' : static_cast<char>('a' + random() % 26));
  return text;
}

void report(const Tokenizer& tokenizer, const char* what, const std::string& text) {
  const auto begin = std::chrono::steady_clock::now();
  std::size_t bytes = 0, tokens = 0;
  while (bytes < (1 << 20)) {
    tokens += tokenizer.encode(text).size();
    bytes += text.size();
  }
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
  BOOST_TEST_MESSAGE(what << ": " << static_cast<double>(bytes) / seconds.count() / 1e6 << " MB/s, " << tokens
                          << " tokens");
}

}  // namespace

BOOST_AUTO_TEST_SUITE(tokenizer_speed)

BOOST_AUTO_TEST_CASE(encoding_speed_is_printed) {
  const auto tokenizer = Tokenizer::load(source_folder().string() + "/configs/tiny/tokenizer.json");
  BOOST_REQUIRE(tokenizer.has_value());
  report(*tokenizer, "source and prose, repeated (cached words)", source_text());
  report(*tokenizer, "random words (nothing cached)", random_words(1 << 20));
  report(*tokenizer, "one piece of a megabyte", std::string(1 << 20, '='));
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace tandem::net::text::test
