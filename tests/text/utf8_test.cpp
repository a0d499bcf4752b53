// UTF-8 as it comes in pieces: the streaming decoder must not care where the pieces end.
#include "net/text/utf8.hpp"
#include "net/text/detokenizer.hpp"
#include "tests/text/tokenizer_fixture.hpp"

#include <boost/test/unit_test.hpp>
#include <random>

namespace tandem::net::text::test {
namespace {

std::string streamed(std::string_view bytes, std::size_t piece_bytes) {
  Utf8Stream stream;
  std::string out;
  for (std::size_t i = 0; i < bytes.size(); i += piece_bytes) stream.push(bytes.substr(i, piece_bytes), out);
  stream.flush(out);
  return out;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(utf8_streams)

BOOST_AUTO_TEST_CASE(an_ill_formed_sequence_becomes_one_replacement_each_maximal_subpart) {
  struct Row {
    const char *bytes, *expected;
  };
  for (const Row& row : std::initializer_list<Row>{{"a\xff"
                                                    "b",
                                                    "a\uFFFDb"},
                                                   {"\xc3(", "\uFFFD("},
                                                   {"\xe2\x82(", "\uFFFD("},
                                                   {"\xf0\x9f\x98(", "\uFFFD("},
                                                   {"\xc0\x80", "\uFFFD\uFFFD"},
                                                   {"\xed\xa0\x80", "\uFFFD\uFFFD\uFFFD"},
                                                   {"\xf4\x90\x80\x80", "\uFFFD\uFFFD\uFFFD\uFFFD"},
                                                   {"\x80", "\uFFFD"},
                                                   {"\xf0\x9f\x98\xf0\x9f\x98\x80", "\uFFFD😀"},
                                                   {"ok \xe4\xbd", "ok \uFFFD"}}) {
    for (const std::size_t piece_bytes : {1u, 2u, 3u, 100u})
      BOOST_TEST(streamed(row.bytes, piece_bytes) == row.expected);
  }
}

BOOST_AUTO_TEST_CASE(any_bytes_stream_to_valid_text_that_does_not_depend_on_the_pieces) {
  std::mt19937 random(20261129);
  for (int round = 0; round < 500; ++round) {
    std::string bytes;
    for (int i = 0; i < 40; ++i)
      bytes.push_back(static_cast<char>(random() % 3 == 0 ? random() % 128 : 0x80 + random() % 128));
    const std::string whole = streamed(bytes, bytes.size());
    BOOST_TEST(is_valid_utf8(whole));
    for (const std::size_t piece_bytes : {1u, 2u, 3u, 7u}) BOOST_TEST(streamed(bytes, piece_bytes) == whole);
  }
}

BOOST_AUTO_TEST_CASE(a_complete_character_is_shown_as_soon_as_its_last_byte_is_there) {
  Utf8Stream stream;
  std::string out;
  stream.push("\xf0\x9f\x98", out);
  BOOST_TEST(out == "");
  stream.push("\x80!", out);
  BOOST_TEST(out == "😀!");
}

BOOST_AUTO_TEST_CASE(every_code_point_survives_writing_and_reading) {
  for (std::uint32_t code_point = 0; code_point < 0x110000; code_point += code_point < 0x3000 ? 1 : 37) {
    if (code_point >= 0xD800 && code_point <= 0xDFFF) continue;
    std::string bytes;
    append_utf8(bytes, code_point);
    const Utf8Step step = read_utf8(bytes);
    BOOST_REQUIRE((step.status == Utf8Status::complete));
    BOOST_REQUIRE(step.code_point == code_point);
    BOOST_REQUIRE(step.bytes == bytes.size());
  }
}

BOOST_AUTO_TEST_CASE(a_tail_is_dropped_when_the_output_was_cut_and_replaced_when_the_model_stopped) {
  for (const bool is_cut : {true, false}) {
    Detokenizer detokenizer(small_tokenizer());
    BOOST_TEST(detokenizer.push(byte_id('x')) == "x");
    BOOST_TEST(detokenizer.push(byte_id(0xE4)) == "");
    BOOST_TEST(detokenizer.push(byte_id(0xBD)) == "");
    BOOST_TEST(detokenizer.finish(is_cut) == (is_cut ? "" : "\uFFFD"));
  }
}

BOOST_AUTO_TEST_CASE(special_tokens_and_unknown_ids_give_nothing_unless_they_are_asked_for) {
  Detokenizer silent(small_tokenizer());
  BOOST_TEST(silent.push(id_of(Markup::user)) == "");
  BOOST_TEST(silent.push(1u << 30) == "");
  Detokenizer written(small_tokenizer(), AddedTokenText::written);
  BOOST_TEST(written.push(id_of(Markup::user)) == "<｜User｜>");
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace tandem::net::text::test
