// Builds the file as JSON text, entry by entry.
#include "tests/text/tokenizer_fixture.hpp"

#include "net/text/byte_alphabet.hpp"
#include "net/text/json/write.hpp"
#include "net/text/pretokenizer.hpp"
#include "net/text/utf8.hpp"

#include <boost/test/unit_test.hpp>

namespace tandem::net::text::test {
namespace {

std::string spelled(std::string_view bytes) {
  std::string out;
  for (const char c : bytes) append_utf8(out, byte_letter(static_cast<unsigned char>(c)));
  return out;
}

Json number(std::size_t value) {
  return Json(JsonNumber{std::to_string(value)});
}
Json string(std::string_view value) {
  return Json(std::string(value));
}

Json splits() {
  JsonArray steps;
  for (const std::string_view pattern : split_patterns) {
    steps.emplace_back(JsonObject{{"type", string("Split")},
                                  {"pattern", Json(JsonObject{{"Regex", string(pattern)}})},
                                  {"behavior", string("Isolated")},
                                  {"invert", Json(false)}});
  }
  steps.emplace_back(
      JsonObject{{"type", string("ByteLevel")}, {"add_prefix_space", Json(false)}, {"use_regex", Json(false)}});
  return Json(JsonObject{{"type", string("Sequence")}, {"pretokenizers", Json(std::move(steps))}});
}

Json merge_rule(const TokenizerSpec& spec, const std::pair<std::string, std::string>& merge) {
  const std::string left = spelled(merge.first), right = spelled(merge.second);
  if (spec.has_pair_merges) return Json(JsonArray{string(left), string(right)});
  return string(left + " " + right);
}

}  // namespace

std::string tokenizer_text(const TokenizerSpec& spec) {
  JsonObject vocabulary;
  for (int byte = 0; byte < 256; ++byte) {
    if (byte == spec.without_byte) continue;
    vocabulary.push_back({spelled(std::string(1, static_cast<char>(byte))), number(vocabulary.size())});
  }
  JsonArray merges;
  for (const auto& merge : spec.merges) {
    vocabulary.push_back({spelled(merge.first + merge.second), number(vocabulary.size())});
    merges.push_back(merge_rule(spec, merge));
  }
  for (const std::string& entry : spec.entries) vocabulary.push_back({spelled(entry), number(vocabulary.size())});
  std::vector<std::string> added;
  for (std::size_t i = 0; i < markup_count; ++i) {
    const std::string text(markup_text(static_cast<Markup>(i)));
    if (text != spec.without_markup) added.push_back(text);
  }
  added.insert(added.end(), spec.added.begin(), spec.added.end());
  JsonArray added_json;
  for (const std::string& text : added) {
    added_json.emplace_back(
        JsonObject{{"id", number(vocabulary.size() + added_json.size())}, {"content", string(text)}});
  }
  const Json model(
      JsonObject{{"type", string("BPE")}, {"vocab", Json(std::move(vocabulary))}, {"merges", Json(std::move(merges))}});
  return write_json(Json(JsonObject{{"added_tokens", Json(std::move(added_json))},
                                    {"normalizer", Json()},
                                    {"pre_tokenizer", splits()},
                                    {"model", model}}));
}

const Tokenizer& small_tokenizer() {
  static const auto tokenizer = Tokenizer::from_json(tokenizer_text(), "small");
  BOOST_REQUIRE_MESSAGE(tokenizer.has_value(), "the small tokenizer loads");
  return *tokenizer;
}

TokenId byte_id(unsigned char byte) {
  const auto ids = small_tokenizer().encode(std::string(1, static_cast<char>(byte)));
  BOOST_REQUIRE(ids.size() == 1);
  return ids.front();
}

TokenId id_of(Markup markup) {
  return *small_tokenizer().id(markup);
}

}  // namespace tandem::net::text::test
