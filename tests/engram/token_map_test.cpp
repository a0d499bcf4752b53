// Compression keys, maps from tokenizer.json and from files, the order in which a model's map is looked for.
#include "engram/token_map.hpp"

#include <boost/test/unit_test.hpp>
#include <set>

#include "engram/token_text.hpp"
#include "tests/build_paths.hpp"
#include "tests/engram/temporary_folder.hpp"

using namespace tandem;
using namespace tandem::engram;

BOOST_AUTO_TEST_SUITE(token_map)

namespace {

std::span<const std::byte> bytes(const std::string& text) {
  return std::as_bytes(std::span(text));
}

// Byte-level spellings: U+0120 is a blank, U+010A a line feed; "Ã" is the first byte of a two-byte character.
const std::string tokenizer = R"({"added_tokens":[{"id":0,"content":"<s>"},{"id":9,"content":"<｜User｜>"}],
  "decoder":{"type":"ByteLevel"},
  "model":{"type":"BPE","vocab":{"<s>":0,"The":1,"the":2,"ĠTHE":3,"Ġ":4,"Ċ":5,"Ã":6,"Ãī":7,"e":8}}})";
const std::vector<ClassId> tokenizer_classes{0, 1, 1, 1, 2, 2, 3, 4, 4, 5};
const TokenMapSpec tokenizer_spec{10, 6};

std::vector<ClassId> classes_of(const TokenMap& map) {
  return {map.classes().begin(), map.classes().end()};
}

ErrorCode build_error(const std::string& json, TokenMapSpec spec = tokenizer_spec) {
  const auto built = TokenMap::build(json, "tokenizer.json", spec);
  BOOST_REQUIRE(!built);
  return built.error().code;
}

std::string entries(const std::vector<ClassId>& classes) {
  const auto view = std::as_bytes(std::span(classes));
  return {reinterpret_cast<const char*>(view.data()), view.size()};
}

}  // namespace

BOOST_AUTO_TEST_CASE(texts_that_differ_in_case_accents_or_blanks_share_a_normal_form) {
  const std::pair<const char*, const char*> cases[] = {
      {"The", "the"},
      {" THE\t", "the"},
      {"\xC3\x89t\xC3\xA9", "ete"},  // É t é
      {"e\xCC\x81", "e"},            // e + combining acute
      {"\xEF\xBC\xA1", "a"},         // full-width A
      {"\xEF\xAC\x81", "fi"},        // ligature fi
      {"\xC4\xB0", "i"},             // I with dot above
      {"\xC3\x9F", "\xC3\x9F"},      // sharp s has no lower-case change
      {"\xCE\xA3", "\xCF\x83"},      // capital sigma, never final
      {"a \t\r\n b", "a b"},
      {" ", " "},
      {"\n\n\t", " "},
      {"\xC2\xA0", " "},      // no-break space is compatible with a blank
      {"\xE3\x80\x80", " "},  // ideographic space too
      {"\x0B", ""},           // stripped, but not a blank
      {"\xCC\x81", ""},       // nothing but an accent
      {"\xEE\x80\x80", " "},  // the reference's sentinel
      {"", ""},
      {"\xED\x95\x9C", "\xE1\x84\x92\xE1\x85\xA1\xE1\x86\xAB"},  // Hangul stays decomposed
  };
  for (const auto& [text, expected] : cases) BOOST_TEST(normalise(text) == expected);
}

BOOST_AUTO_TEST_CASE(partial_characters_and_vanishing_texts_keep_their_own_spelling) {
  BOOST_TEST(compression_key("Ã") == "Ã");                  // one byte of a longer character
  BOOST_TEST(compression_key("ï¿½") == "ï¿½");              // U+FFFD itself
  BOOST_TEST(compression_key("ÌĤ") == "\xCC\x82");          // a lone circumflex: its text
  BOOST_TEST(compression_key("<｜User｜>") == "<|user|>");  // control tokens are text, too
  BOOST_TEST(compression_key("ĠĠ") == " ");
}

BOOST_AUTO_TEST_CASE(every_byte_has_a_spelling_of_its_own) {
  // The byte alphabet runs over 33-126, 161-172, 174-255 and then U+0100..U+0143.
  std::set<std::string> seen;
  for (int point = 33; point < 0x144; ++point) {
    const bool is_used = point <= 126 || (point >= 161 && point != 173);
    const std::string token =
        point < 0x80 ? std::string(1, static_cast<char>(point))
                     : std::string{static_cast<char>(0xC0 | point >> 6), static_cast<char>(0x80 | (point & 63))};
    const std::string decoded = bytes_of_token(token);
    if (is_used) {
      BOOST_TEST(decoded.size() == 1U);
      seen.insert(decoded);
    } else {
      BOOST_TEST(decoded == token);
    }
  }
  BOOST_TEST(seen.size() == 256U);
}

BOOST_AUTO_TEST_CASE(a_tokenizer_gives_classes_in_order_of_first_use) {
  const auto built = TokenMap::build(tokenizer, "tokenizer.json", tokenizer_spec);
  BOOST_REQUIRE_MESSAGE(built.has_value(), (built ? "" : built.error().message()));
  BOOST_TEST(classes_of(*built) == tokenizer_classes, boost::test_tools::per_element());
  BOOST_TEST(built->class_of(9) == 5);
}

BOOST_AUTO_TEST_CASE(tokenizers_that_cannot_be_used_are_refused) {
  const auto with = [](const std::string& from, const std::string& to) {
    std::string text = tokenizer;
    return text.replace(text.find(from), from.size(), to);
  };
  BOOST_TEST((build_error("{") == ErrorCode::bad_format));
  BOOST_TEST((build_error("[]") == ErrorCode::bad_format));
  BOOST_TEST((build_error(with("ByteLevel", "Metaspace")) == ErrorCode::bad_format));
  BOOST_TEST((build_error(with("\"vocab\"", "\"words\"")) == ErrorCode::bad_format));
  BOOST_TEST((build_error(with("\"e\":8", "\"e\":10")) == ErrorCode::bad_format));  // a gap
  BOOST_TEST((build_error(with("\"e\":8", "\"e\":7")) == ErrorCode::bad_format));   // twice
  BOOST_TEST((build_error(with("\"content\":\"<s>\"", "\"text\":\"<s>\"")) == ErrorCode::bad_format));
  BOOST_TEST((build_error(tokenizer, {11, 6}) == ErrorCode::mismatch));
  BOOST_TEST((build_error(tokenizer, {10, 7}) == ErrorCode::mismatch));
  const auto sequence = with("{\"type\":\"ByteLevel\"}", R"({"type":"Sequence","decoders":[{"type":"ByteLevel"}]})");
  BOOST_TEST(TokenMap::build(sequence, "tokenizer.json", tokenizer_spec).has_value());
}

BOOST_AUTO_TEST_CASE(files_are_checked_before_use) {
  const test::TemporaryFolder folder;
  const auto load = [&](const std::string& content, TokenMapSpec spec) {
    return TokenMap::load(folder.write("map.i32", bytes(content)), spec);
  };
  BOOST_TEST(load(entries({0, 1, 0}), {3, 2}).has_value());
  BOOST_TEST((load(entries({0, 1, 0}) + "x", {3, 2}).error().code == ErrorCode::bad_format));
  BOOST_TEST((load(entries({0, 1}), {3, 2}).error().code == ErrorCode::mismatch));
  BOOST_TEST((load(entries({0, 1, 1}), {3, 3}).error().code == ErrorCode::mismatch));
  BOOST_TEST((load(entries({0, -1, 1}), {3, 2}).error().code == ErrorCode::out_of_range));
  BOOST_TEST((load(entries({0, 2, 1}), {3, 3}).error().code == ErrorCode::out_of_range));
  BOOST_TEST((TokenMap::load(folder.path() / "none", {3, 2}).error().code == ErrorCode::not_found));
  BOOST_TEST((TokenMap::load(folder.path(), {3, 2}).error().code == ErrorCode::io));
}

BOOST_AUTO_TEST_CASE(the_released_vocabulary_must_have_the_released_digest) {
  std::vector<ClassId> classes(129'280, 0);
  for (ClassId id = 0; id < 99'092; ++id) classes[static_cast<std::size_t>(id)] = id;
  const test::TemporaryFolder folder;
  const auto loaded = TokenMap::load(folder.write("map.i32", bytes(entries(classes))), {129'280, 99'092});
  BOOST_REQUIRE(!loaded);
  BOOST_TEST((loaded.error().code == ErrorCode::mismatch));
  BOOST_TEST(loaded.error().found.find("SHA-256") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(the_golden_map_of_the_tiny_model_loads) {
  const auto loaded = TokenMap::load(golden_model_folder() / "ckpt/engram_token_map.i32", {256, 192});
  BOOST_REQUIRE_MESSAGE(loaded.has_value(), (loaded ? "" : loaded.error().message()));
  BOOST_TEST(loaded->class_of(2) == 2);
}

BOOST_AUTO_TEST_CASE(a_map_in_the_model_folder_wins_and_a_bad_one_is_never_replaced) {
  const test::TemporaryFolder model, cache;
  model.write("tokenizer.json", bytes(tokenizer));
  const std::vector<ClassId> shipped{0, 1, 2, 3, 4, 5, 5, 5, 5, 5};
  model.write("engram_token_map.i32", bytes(entries(shipped)));
  const auto opened = TokenMap::open(model.path(), cache.path(), tokenizer_spec);
  BOOST_REQUIRE(opened.has_value());
  BOOST_TEST(classes_of(*opened) == shipped, boost::test_tools::per_element());
  model.write("engram_token_map.i32", bytes("x"));
  BOOST_TEST((TokenMap::open(model.path(), cache.path(), tokenizer_spec).error().code == ErrorCode::bad_format));
}

BOOST_AUTO_TEST_CASE(a_built_map_is_kept_and_a_damaged_copy_is_built_again) {
  const test::TemporaryFolder model, cache;
  model.write("tokenizer.json", bytes(tokenizer));
  const auto folder = cache.path() / "state";
  for (int round = 0; round < 3; ++round) {
    const auto opened = TokenMap::open(model.path(), folder, tokenizer_spec);
    BOOST_REQUIRE(opened.has_value());
    BOOST_TEST(classes_of(*opened) == tokenizer_classes, boost::test_tools::per_element());
    std::size_t files = 0;
    for (const auto& entry : std::filesystem::directory_iterator(folder)) {
      ++files;
      BOOST_TEST(TokenMap::load(entry.path(), tokenizer_spec).has_value());
      if (round == 1) std::filesystem::resize_file(entry.path(), 7);
    }
    BOOST_TEST(files == 1U);
  }
}

BOOST_AUTO_TEST_CASE(an_unwritable_cache_is_no_error_and_nothing_to_build_from_is) {
  const test::TemporaryFolder model;
  BOOST_TEST((TokenMap::open(model.path(), {}, tokenizer_spec).error().code == ErrorCode::not_found));
  model.write("tokenizer.json", bytes(tokenizer));
  BOOST_TEST(TokenMap::open(model.path(), {}, tokenizer_spec).has_value());
  BOOST_TEST(TokenMap::open(model.path(), model.path() / "tokenizer.json" / "below", tokenizer_spec).has_value());
}

BOOST_AUTO_TEST_SUITE_END()
