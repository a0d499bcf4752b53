// Encoding and decoding with a small vocabulary, and every way in which a tokenizer file can be wrong.
#include "net/text/json/write.hpp"
#include "net/text/pretokenizer.hpp"
#include "net/text/segments.hpp"
#include "net/text/utf8.hpp"
#include "tests/build_paths.hpp"
#include "tests/text/golden_fixture.hpp"
#include "tests/text/tokenizer_fixture.hpp"

#include <boost/test/unit_test.hpp>
#include <filesystem>
#include <random>
#include <thread>

namespace tandem::net::text::test {
namespace {

std::string random_text(std::mt19937& random, int characters) {
  static constexpr std::uint32_t alphabet[] = {' ',   '\n',   '\r',   '\t',     'a',    'e',    'h',     'l',    'o',
                                               't',   'Z',    '0',    '7',      '=',    '.',    '<',     '_',    0xE9,
                                               0x301, 0xB2,   0x4E2D, 0x30A2,   0x30FB, 0xAC00, 0x1F600, 0x200B, 0x3000,
                                               0x85,  0x2028, 0xE000, 0x10FFFF, 0x0,    0x7F,   0xFF5C,  0x20000};
  std::string text;
  for (int i = 0; i < characters; ++i) {
    append_utf8(text, random() % 4 == 0 ? 0x20 + random() % 0x2000 : alphabet[random() % std::size(alphabet)]);
  }
  return text;
}

Error refusal_of(const std::string& text) {
  const auto tokenizer = Tokenizer::from_json(text, "t.json");
  BOOST_REQUIRE(tokenizer.has_error());
  BOOST_TEST(tokenizer.error().where.starts_with("t.json"));
  return tokenizer.error();
}

// Returns the good file with the first `from` replaced.
std::string spoiled(const std::string& from, const std::string& to) {
  std::string text = tokenizer_text();
  const std::size_t at = text.find(from);
  BOOST_REQUIRE_MESSAGE(at != std::string::npos, from);
  return text.replace(at, from.size(), to);
}

}  // namespace

BOOST_AUTO_TEST_SUITE(tokenizers)

BOOST_AUTO_TEST_CASE(decoding_gives_back_any_text_and_even_any_bytes) {
  std::mt19937 random(7);
  for (int round = 0; round < 400; ++round) {
    const std::string text = random_text(random, 1 + static_cast<int>(random() % 60));
    BOOST_TEST(*small_tokenizer().decode(small_tokenizer().encode(text)) == text);
    std::string bytes;
    for (int i = 0; i < 50; ++i) bytes.push_back(static_cast<char>(random()));
    BOOST_TEST(*small_tokenizer().decode(small_tokenizer().encode(bytes)) == bytes);
  }
  BOOST_TEST(small_tokenizer().encode("").empty());
}

BOOST_AUTO_TEST_CASE(the_pieces_of_any_bytes_are_the_bytes) {
  std::mt19937 random(11);
  for (int round = 0; round < 400; ++round) {
    std::string bytes = random_text(random, 20);
    for (int i = 0; i < 5; ++i) bytes.insert(random() % bytes.size(), 1, static_cast<char>(random()));
    std::string joined;
    PieceCursor cursor(bytes);
    for (auto piece = cursor.next(); !piece.empty(); piece = cursor.next()) joined += piece;
    BOOST_TEST(joined == bytes);
  }
}

BOOST_AUTO_TEST_CASE(merges_apply_by_rank_and_from_the_left) {
  const Tokenizer& tokenizer = small_tokenizer();
  const auto pieces = [&](std::string_view text) {
    std::vector<std::string> out;
    for (const TokenId id : tokenizer.encode(text)) out.emplace_back(*tokenizer.token_bytes(id));
    return out;
  };
  using Pieces = std::vector<std::string>;
  BOOST_TEST(pieces("hello the") == (Pieces{"hello", " the"}), boost::test_tools::per_element());
  BOOST_TEST(pieces("=====") == (Pieces{"====", "="}), boost::test_tools::per_element());
  BOOST_TEST(pieces("lll") == (Pieces{"ll", "l"}), boost::test_tools::per_element());
  BOOST_TEST(pieces("hel") == (Pieces{"he", "l"}), boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(short_and_long_merging_agree) {
  std::array<TokenId, 256> bytes{};
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<TokenId>(i);
  std::mt19937 random(3);
  MergeTable merges(300);
  TokenId next = 256;
  for (std::uint32_t rank = 0; rank < 300; ++rank) {
    const auto part = [&] { return random() % 2 == 0 ? 'a' + random() % 4 : 256 + random() % (rank + 1); };
    merges.insert(static_cast<TokenId>(part()), static_cast<TokenId>(part()), {rank, next++});
  }
  const BytePairEncoder encoder(bytes, merges);
  for (int round = 0; round < 2000; ++round) {
    std::string piece;
    for (std::size_t i = 0, n = 1 + random() % 64; i < n; ++i) piece.push_back(static_cast<char>('a' + random() % 4));
    std::vector<TokenId> fast, again, plain;
    encoder.encode(piece, fast);
    encoder.encode(piece, again);  // now from the cache
    encoder.merge_long(piece, plain);
    BOOST_REQUIRE(fast == plain);
    BOOST_REQUIRE(again == plain);
  }
}

BOOST_AUTO_TEST_CASE(a_megabyte_of_one_character_is_one_piece_and_is_encoded) {
  const std::string text(1 << 20, '=');
  const auto ids = small_tokenizer().encode(text);
  BOOST_TEST(ids.size() == text.size() / 4);
}

BOOST_AUTO_TEST_CASE(many_threads_get_the_ids_of_one) {
  std::mt19937 random(5);
  std::vector<std::string> texts;
  for (int i = 0; i < 200; ++i) texts.push_back(random_text(random, 100));
  std::vector<std::vector<TokenId>> expected;
  for (const auto& text : texts) expected.push_back(small_tokenizer().encode(text));
  const auto tokenizer = Tokenizer::from_json(tokenizer_text(), "shared");
  std::array<bool, 4> agrees{};
  {
    std::vector<std::jthread> threads;
    for (bool& agreed : agrees) {
      threads.emplace_back([&] {
        bool all = true;
        for (std::size_t i = 0; i < texts.size(); ++i) all = all && tokenizer->encode(texts[i]) == expected[i];
        agreed = all;
      });
    }
  }
  for (const bool agreed : agrees) BOOST_TEST(agreed);
}

BOOST_AUTO_TEST_CASE(plain_text_never_becomes_markup_and_a_raw_prompt_does) {
  const std::string text = "a<｜User｜>b</think>";
  for (const TokenId id : small_tokenizer().encode(text)) BOOST_TEST(!small_tokenizer().is_added(id));
  const std::vector<TokenId> raw = {byte_id('a'), id_of(Markup::user), byte_id('b'), id_of(Markup::think_close)};
  BOOST_TEST(small_tokenizer().encode_raw(text) == raw, boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(the_longest_added_token_wins_at_the_leftmost_place) {
  const AddedTokens tokens({{1, "<a"}, {2, "<a>"}, {3, "a>b"}});
  const auto match = tokens.search("x<a>b", 0);
  BOOST_REQUIRE(match.has_value());
  BOOST_TEST(match->id == 2u);
  BOOST_TEST(match->begin == 1u);
  BOOST_TEST(match->bytes == 3u);
  BOOST_TEST(tokens.search("x<a>b", 2)->id == 3u);
  BOOST_TEST(!tokens.search("x<a>b", 3));
  BOOST_TEST(!tokens.search("", 0));
}

BOOST_AUTO_TEST_CASE(neighbouring_texts_are_joined_before_they_are_cut) {
  SegmentList segments;
  segments.text("hel");
  segments.text("");
  segments.text("lo");
  segments.markup(Markup::eos);
  auto expected = small_tokenizer().encode("hello");
  expected.push_back(id_of(Markup::eos));
  BOOST_TEST(*tokenize(segments, small_tokenizer()) == expected, boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(an_id_beyond_the_vocabulary_is_an_error_when_decoded) {
  const auto size = static_cast<TokenId>(small_tokenizer().vocabulary_size());
  const std::vector<TokenId> last = {size - 1}, beyond = {size};
  BOOST_TEST(small_tokenizer().decode(last).has_value());
  const auto decoded = small_tokenizer().decode(beyond);
  BOOST_REQUIRE(decoded.has_error());
  BOOST_TEST((decoded.error().code == ErrorCode::out_of_range));
}

BOOST_AUTO_TEST_CASE(the_longest_entry_bounds_the_bytes_of_a_token) {
  BOOST_TEST(small_tokenizer().token_bytes_max() == markup_text(Markup::bos).size());
}

BOOST_AUTO_TEST_CASE(both_spellings_of_merges_load) {
  TokenizerSpec spec;
  spec.has_pair_merges = true;
  const auto tokenizer = Tokenizer::from_json(tokenizer_text(spec), "pairs");
  BOOST_REQUIRE(tokenizer.has_value());
  BOOST_TEST(tokenizer->encode("hello") == small_tokenizer().encode("hello"), boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(a_file_of_another_kind_is_refused_and_the_field_named) {
  struct Row {
    const char *from, *to, *field;
  };
  for (const Row& row : std::initializer_list<Row>{
           {"\"type\": \"BPE\"", "\"type\": \"Unigram\"", "model.type"},
           {"\"type\": \"BPE\"", "\"type\": \"BPE\", \"byte_fallback\": true", "model.byte_fallback"},
           {"\"type\": \"BPE\"", "\"type\": \"BPE\", \"dropout\": 0.1", "model.dropout"},
           {"\"type\": \"BPE\"", "\"type\": \"BPE\", \"ignore_merges\": true", "model.ignore_merges"},
           {"\"normalizer\": null", "\"normalizer\": {\"type\": \"NFC\"}", "normalizer"},
           {"{1,3}", "{1,2}", "pre_tokenizer.pretokenizers[0].pattern.Regex"},
           {"\"Isolated\"", "\"Removed\"", "pre_tokenizer.pretokenizers[0].behavior"},
           {"\"use_regex\": false", "\"use_regex\": true", "pre_tokenizer.pretokenizers[3].use_regex"},
           {"\"merges\": [\"h e\"", "\"merges\": [\"h q\"", "model.merges[0]"},
           {"\"merges\": [\"h e\"", "\"merges\": [\"he\"", "model.merges[0]"},
           {"\"merges\": [\"h e\"", "\"merges\": [7", "model.merges[0]"},
           {"\"hello\": ", "\"hello\": -", "model.vocab[\"hello\"]"},
           {"\"hello\": ", "\"hello\": 999999999999", "model.vocab[\"hello\"]"},
           {"\"hello\": ", "\"hello world\": ", "model.vocab[\"hello world\"]"},
           {"\"content\": \"<think>\"", "\"content\": \"\"", "added_tokens[5].content"},
           {"\"content\": \"<think>\"", "\"content\": \"<think>\", \"lstrip\": true", "added_tokens[5].lstrip"},
           {"\"added_tokens\"", "\"other_tokens\"", "added_tokens"},
           {"\"model\"", "\"modem\"", "model"}}) {
    BOOST_TEST_CONTEXT(row.to) {
      const Error error = refusal_of(spoiled(row.from, row.to));
      BOOST_TEST(error.where == std::string("t.json: ") + row.field);
      BOOST_TEST(!error.expected.empty());
    }
  }
}

BOOST_AUTO_TEST_CASE(a_file_that_is_cut_anywhere_is_refused) {
  const std::string text = tokenizer_text();
  for (std::size_t size = 0; size < text.size(); size += 97) refusal_of(text.substr(0, size));
}

BOOST_AUTO_TEST_CASE(a_missing_byte_or_marker_is_named) {
  TokenizerSpec no_byte;
  no_byte.without_byte = 0x8F;
  BOOST_TEST(refusal_of(tokenizer_text(no_byte)).expected == "byte 0x8F");
  TokenizerSpec no_marker;
  no_marker.without_markup = "｜DSML｜";
  const Error error = refusal_of(tokenizer_text(no_marker));
  BOOST_TEST((error.code == ErrorCode::not_found));
  BOOST_TEST(error.expected == "｜DSML｜");
}

BOOST_AUTO_TEST_CASE(an_optional_marker_may_be_missing_until_a_prompt_needs_it) {
  TokenizerSpec spec;
  spec.without_markup = "<｜title｜>";
  const auto tokenizer = Tokenizer::from_json(tokenizer_text(spec), "t");
  BOOST_REQUIRE(tokenizer.has_value());
  SegmentList segments;
  segments.markup(Markup::title);
  const auto ids = tokenize(segments, *tokenizer);
  BOOST_REQUIRE(ids.has_error());
  BOOST_TEST(ids.error().status == 400);
}

BOOST_AUTO_TEST_CASE(a_file_that_is_not_there_is_named) {
  const auto tokenizer = Tokenizer::load("/nonexistent/tokenizer.json");
  BOOST_REQUIRE(tokenizer.has_error());
  BOOST_TEST((tokenizer.error().code == ErrorCode::not_found));
  BOOST_TEST(tokenizer.error().where == "/nonexistent/tokenizer.json");
}

BOOST_AUTO_TEST_CASE(the_tiny_models_file_loads) {
  const std::filesystem::path file = source_folder().string() + "/configs/tiny/tokenizer.json";
  const auto tokenizer = Tokenizer::load(file);
  BOOST_REQUIRE_MESSAGE(tokenizer.has_value(), "configs/tiny/tokenizer.json");
  BOOST_TEST(*tokenizer->decode(tokenizer->encode("17 * 19 = 323\n\nHuế 東京 😀")) == "17 * 19 = 323\n\nHuế 東京 😀");
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace tandem::net::text::test
