// Behaviour of the output parser beyond the golden streams: recovery, delivery, ends, counts, and random input.
#include "net/text/json/parse.hpp"
#include "tests/text/golden_fixture.hpp"
#include "tests/text/tokenizer_fixture.hpp"
#include "tests/text/transcript_fixture.hpp"

#include <boost/test/unit_test.hpp>
#include <random>

namespace tandem::net::text::test {
BOOST_AUTO_TEST_SUITE(output_parser)

namespace {

constexpr Markup D = Markup::dsml;

const std::vector<Tool>& offered() {
  static const std::vector<Tool> tools = [] {
    const Json list = json(R"([{"type": "function", "function": {"name": "f", "parameters": {"type": "object",
        "properties": {"s": {"type": "string"}, "n": {"type": "integer"}}}}}])");
    return *read_tools(&list, {});
  }();
  return tools;
}

OutputOptions with_tools(CallDelivery delivery = CallDelivery::whole) {
  OutputOptions options;
  options.turn.tools = &offered();
  options.turn.delivery = delivery;
  return options;
}

Transcript answer(const Stream& stream, const OutputOptions& options = with_tools(),
                  EndCause cause = EndCause::end_of_turn) {
  return run_ids(byte_ids(stream), options, cause);
}

// `< calls>` and `< invoke name="f">`, as the model opens them.
Stream opened_call() {
  return {"\n\n<", D, " calls>\n<", D, " invoke name=\"f\">\n"};
}

Stream joined(Stream first, const Stream& second) {
  first.insert(first.end(), second.begin(), second.end());
  return first;
}

const CallRecord f_of_x{"f", R"({"s": "x"})", true};

}  // namespace

BOOST_AUTO_TEST_CASE(a_forgotten_invoke_closer_is_supplied_by_the_next_invoke_or_the_blocks_end) {
  const Transcript two = answer(joined(opened_call(), {"<", D, " parameter name=\"s\" string=\"true\">x</", D,
                                                       " parameter>\n<", D, " invoke name=\"g\">\n</", D, " calls>"}));
  BOOST_TEST(two == (Transcript{"", "", {f_of_x, {"g", "{}", true}}, "tool_calls"}));
  const Transcript in_value =
      answer(joined(opened_call(), {"<", D, " parameter name=\"s\" string=\"true\">x</", D, " calls>"}));
  BOOST_TEST(in_value == (Transcript{"", "", {f_of_x}, "tool_calls"}));
}

BOOST_AUTO_TEST_CASE(tags_that_nobody_knows_vanish_and_the_text_around_them_stays) {
  BOOST_TEST(answer({"a\n\n<", D, " table>b</", D, "x>c"}).content == "abc");
  BOOST_TEST(answer({"a<", D, "\xC3\xA9 \n>b"}).content == "ab");
  BOOST_TEST(answer({"a", D, "b"}).content == "ab");
  BOOST_TEST(answer({"a<", Markup::think_open, D, "b"}).content == "a<b");
  BOOST_TEST(answer({"a<", D, " ca<", D, " x>b"}).content == "ab");
}

BOOST_AUTO_TEST_CASE(a_tag_without_an_end_is_given_up_after_its_limit) {
  const std::string long_tag(TagReader::unknown_bytes_max, 'y');
  BOOST_TEST(answer({"a<", D, long_tag + "b"}).content == "ab");
  const std::string long_key = " parameter name=\"" + std::string(TagReader::named_bytes_max, 'k');
  const Transcript cut_key = answer(joined(opened_call(), {"<", D, long_key, "</", D, " invoke></", D, " calls>"}));
  BOOST_TEST(cut_key.calls.size() == 1u);
  BOOST_TEST(cut_key.calls.front().arguments == "{}");
}

BOOST_AUTO_TEST_CASE(keys_may_hold_quotes_and_brackets) {
  const Transcript got = answer(joined(opened_call(), {"<", D, " parameter name=\"a\"b>c\" string=\"false\">1</", D,
                                                       " parameter>\n</", D, " invoke>\n</", D, " calls>"}));
  BOOST_TEST(got.calls.front().arguments == R"({"a\"b>c": 1})");
}

BOOST_AUTO_TEST_CASE(markers_inside_a_value_vanish) {
  const Transcript got =
      answer(joined(opened_call(), {"<", D, " parameter name=\"s\" string=\"true\">a", D, "b<", D, " z>",
                                    Markup::think_close, "c</", D, " parameter></", D, " invoke></", D, " calls>"}));
  BOOST_TEST(got.calls.front().arguments == R"({"s": "abc"})");
}

BOOST_AUTO_TEST_CASE(without_tools_or_with_an_empty_list_no_call_is_read) {
  const std::vector<Tool> none;
  OutputOptions options;
  for (const std::vector<Tool>* tools : {static_cast<const std::vector<Tool>*>(nullptr), &none}) {
    options.turn.tools = tools;
    BOOST_TEST(answer({"x\n\n<", D, " calls>"}, options) == (Transcript{"", "x\n\n< calls>", {}, "stop"}));
  }
}

BOOST_AUTO_TEST_CASE(a_live_call_begins_at_once_and_its_string_streams) {
  OutputParser parser(small_tokenizer(), with_tools(CallDelivery::live));
  Transcript seen;
  for (const TokenId id : byte_ids(opened_call())) add_events(seen, parser.feed(id));
  BOOST_TEST(seen.calls.size() == 1u);
  BOOST_TEST(seen.calls.front().arguments == "");
  for (const TokenId id : byte_ids({"<", D, " parameter name=\"s\" string=\"true\">ab<"}))
    add_events(seen, parser.feed(id));
  BOOST_TEST(seen.calls.front().arguments == R"({"s": "ab)");
  add_events(seen, parser.finish(EndCause::length));
  BOOST_TEST(!seen.calls.front().is_complete);
  BOOST_TEST(seen.finish_reason == "length");
}

BOOST_AUTO_TEST_CASE(a_whole_call_is_not_seen_before_it_is_complete) {
  OutputParser parser(small_tokenizer(), with_tools());
  for (const TokenId id :
       byte_ids(joined(opened_call(), {"<", D, " parameter name=\"s\" string=\"true\">ab</", D, " parameter>"}))) {
    BOOST_TEST(parser.feed(id).empty());
  }
  BOOST_TEST(parser.complete_calls() == 0u);
}

BOOST_AUTO_TEST_CASE(the_turn_ends_with_its_first_call_where_calls_may_not_be_parallel) {
  OutputOptions options = with_tools();
  options.turn.allows_parallel_calls = false;
  const Transcript got =
      answer(joined(opened_call(), {"</", D, " invoke>\n<", D, " invoke name=\"g\">\n</", D, " invoke>"}), options);
  BOOST_TEST(got == (Transcript{"", "", {{"f", "{}", true}}, "tool_calls"}));
}

BOOST_AUTO_TEST_CASE(a_named_choice_may_finish_as_stop_by_configuration) {
  OutputOptions options = with_tools();
  options.turn.named_choice_stops = true;
  BOOST_TEST(answer(joined(opened_call(), {"</", D, " invoke></", D, " calls>"}), options).finish_reason == "stop");
}

BOOST_AUTO_TEST_CASE(a_block_that_closed_was_not_cut_whatever_the_engine_says) {
  const Stream stream = joined(opened_call(), {"</", D, " invoke></", D, " calls>"});
  BOOST_TEST(answer(stream, with_tools(), EndCause::length).finish_reason == "tool_calls");
}

BOOST_AUTO_TEST_CASE(reasoning_tokens_are_those_before_the_closing_marker) {
  OutputOptions options;
  options.turn.start = ParserStart::reasoning;
  OutputParser parser(small_tokenizer(), options);
  for (const TokenId id : byte_ids({"abc", Markup::think_open, "d", Markup::think_close, "efg", Markup::eos}))
    parser.feed(id);
  BOOST_TEST(parser.reasoning_tokens() == 5u);
  BOOST_TEST(parser.has_ended());
  BOOST_TEST(!parser.is_reasoning());
}

BOOST_AUTO_TEST_CASE(the_turn_ends_at_every_header_and_nothing_after_it_counts) {
  for (const Markup end : {Markup::eos, Markup::bos, Markup::user, Markup::system, Markup::assistant}) {
    BOOST_TEST(answer({"a", end, "b"}) == (Transcript{"", "a", {}, "stop"}));
  }
  BOOST_TEST(answer({"a", Markup::title, "b"}).content == "ab");
}

BOOST_AUTO_TEST_CASE(an_ignored_end_vanishes) {
  OutputOptions options = with_tools();
  options.ignores_end_of_turn = true;
  BOOST_TEST(answer({"a", Markup::eos, "b"}, options, EndCause::length) == (Transcript{"", "ab", {}, "length"}));
}

BOOST_AUTO_TEST_CASE(a_stop_id_ends_every_state_without_its_text) {
  OutputOptions options = with_tools();
  options.stop_token_ids = {byte_id('Q')};
  options.turn.start = ParserStart::reasoning;
  BOOST_TEST(answer({"rQ", Markup::think_close, "a"}, options) == (Transcript{"r", "", {}, "stop"}));
  options.turn.start = ParserStart::content;
  const Stream in_value = joined(opened_call(), {"<", D, " parameter name=\"s\" string=\"true\">Q"});
  BOOST_TEST(answer(in_value, options) == (Transcript{"", "", {}, "stop"}));
}

BOOST_AUTO_TEST_CASE(stop_strings_see_the_content_that_a_client_sees) {
  OutputOptions options = with_tools();
  options.turn.stop = {"\n\n", "a<b"};
  BOOST_TEST(answer({"x\n\ny"}, options).content == "x");
  BOOST_TEST(answer({"xa<", Markup::think_open, "by"}, options).content == "x");
  const Transcript call =
      answer(joined({"text"}, joined(opened_call(), {"</", D, " invoke></", D, " calls>"})), options);
  BOOST_TEST(call == (Transcript{"", "text", {{"f", "{}", true}}, "tool_calls"}));
  options.turn.includes_stop = true;
  BOOST_TEST(answer({"xa<by"}, options).content == "xa<b");
}

BOOST_AUTO_TEST_CASE(held_text_comes_out_when_the_turn_ends_or_is_cut) {
  for (const EndCause cause : {EndCause::end_of_turn, EndCause::length}) {
    BOOST_TEST(answer({"a\n\n<"}, with_tools(), cause).content == "a\n\n<");
    BOOST_TEST(answer({"a\n\n\n\n</"}, with_tools(), cause).content == "a\n\n\n\n</");
  }
}

BOOST_AUTO_TEST_CASE(a_special_token_ends_a_character) {
  BOOST_TEST(answer({"\xF0\x9F", Markup::think_open, "\x98\x80"}).content == "\uFFFD\uFFFD\uFFFD");
}

BOOST_AUTO_TEST_CASE(an_id_outside_the_vocabulary_gives_nothing) {
  OutputParser parser(small_tokenizer(), with_tools());
  BOOST_TEST(parser.feed(~TokenId{0}).empty());
  BOOST_TEST(parser.finish(EndCause::length).size() == 1u);
}

BOOST_AUTO_TEST_CASE(random_ids_never_leak_markup_and_always_give_valid_arguments) {
  std::mt19937 random(20261129);
  static const std::vector<std::string> texts = {"<",
                                                 "</",
                                                 "\n",
                                                 "\n\n",
                                                 " calls>",
                                                 " invoke name=\"",
                                                 "f\">",
                                                 " parameter name=\"",
                                                 "s\" string=\"true\">",
                                                 "n\" string=\"false\">",
                                                 " parameter>",
                                                 " invoke>",
                                                 ">",
                                                 "12",
                                                 "{\"s\": 1}",
                                                 "\xF0\x9F",
                                                 "\x98\x80",
                                                 "x"};
  static const std::vector<Markup> marks = {D, D, D, D, Markup::think_open, Markup::think_close, Markup::title};
  for (int round = 0; round < 3000; ++round) {
    Stream stream;
    for (std::size_t i = 0, n = random() % 60; i < n; ++i) {
      if (random() % 3 == 0) {
        stream.emplace_back(marks[random() % marks.size()]);
      } else {
        stream.emplace_back(texts[random() % texts.size()]);
      }
    }
    OutputOptions options = with_tools(round % 2 == 0 ? CallDelivery::whole : CallDelivery::live);
    options.turn.start = round % 3 == 0 ? ParserStart::reasoning : ParserStart::content;
    const EndCause cause = round % 5 == 0 ? EndCause::length : EndCause::end_of_turn;
    const StreamRunner runner({stream, cut(stream, 3)});
    const Transcript got = runner.run(stream, options, cause);
    BOOST_REQUIRE(runner.run(cut(stream, 3), options, cause) == got);
    BOOST_REQUIRE(got.reasoning.find("｜") == std::string::npos && got.content.find("｜") == std::string::npos);
    for (const CallRecord& call : got.calls) {
      BOOST_REQUIRE(call.name.find("｜") == std::string::npos && call.arguments.find("｜") == std::string::npos);
      BOOST_REQUIRE((!call.is_complete || is_json(call.arguments)));
    }
  }
}

BOOST_AUTO_TEST_CASE(uniformly_random_ids_do_no_harm) {
  std::mt19937 random(4);
  const auto size = static_cast<TokenId>(small_tokenizer().vocabulary_size() + 5);
  for (int round = 0; round < 300; ++round) {
    std::vector<TokenId> ids(200);
    for (TokenId& id : ids) id = static_cast<TokenId>(random() % size);
    OutputOptions options = with_tools();
    options.ignores_end_of_turn = true;
    const Transcript got = run_ids(ids, options, EndCause::length);
    BOOST_TEST(got.finish_reason == "length");
  }
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace tandem::net::text::test
