// The parser cases that were executed elsewhere: each must give the same answer however its text is cut.
#include "tests/text/golden_fixture.hpp"
#include "tests/text/transcript_fixture.hpp"

#include <boost/test/unit_test.hpp>

namespace tandem::net::text::test {
namespace {

std::string bytes_of_hex(std::string_view hex) {
  std::string bytes;
  for (std::size_t i = 0; i + 1 < hex.size(); i += 2) {
    bytes.push_back(static_cast<char>(std::stoi(std::string(hex.substr(i, 2)), nullptr, 16)));
  }
  return bytes;
}

Markup markup_of(const std::string& name) {
  if (name == "TS") return Markup::think_open;
  if (name == "TE") return Markup::think_close;
  if (name == "D") return Markup::dsml;
  if (name == "EOS") return Markup::eos;
  BOOST_REQUIRE(name == "U");
  return Markup::user;
}

Stream stream_of(const Json& golden_case) {
  Stream stream;
  for (const Json& token : array_of(golden_case, "tokens")) {
    if (const std::string* text = token.if_string()) {
      stream.emplace_back(*text);
    } else if (token.find("b") != nullptr) {
      stream.emplace_back(bytes_of_hex(text_of(token, "b")));
    } else {
      stream.emplace_back(markup_of(text_of(token, "t")));
    }
  }
  return stream;
}

Transcript expected_of(const Json& golden_case) {
  const Json& expect = *golden_case.find("expect");
  Transcript transcript{text_of(expect, "reasoning"), text_of(expect, "content"), {}, text_of(expect, "finish_reason")};
  for (const Json& call : array_of(expect, "tool_calls")) {
    transcript.calls.push_back({text_of(call, "name"), text_of(call, "arguments"), true});
  }
  return transcript;
}

OutputOptions options_of(const Json& golden_case, const std::vector<Tool>& tools, CallDelivery delivery) {
  OutputOptions options;
  options.turn.start = text_of(golden_case, "start") == "reasoning" ? ParserStart::reasoning : ParserStart::content;
  options.turn.tools = &tools;
  options.turn.delivery = delivery;
  if (const Json* stop = golden_case.find("stop")) options.turn.stop = *read_stop(stop, "stop");
  return options;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(turn_parser_golden)

BOOST_AUTO_TEST_CASE(every_golden_stream_gives_its_answer_under_every_cut_and_delivery) {
  const JsonArray& cases = golden_cases("parse.json");
  BOOST_TEST(cases.size() == 49u);
  for (const Json& golden_case : cases) {
    const auto tools = read_tools(golden_case.find("tools"), {});
    BOOST_REQUIRE(tools.has_value());
    const EndCause cause = text_of(golden_case, "end") == "length" ? EndCause::length : EndCause::end_of_turn;
    const Transcript expected = expected_of(golden_case);
    for (const CallDelivery delivery : {CallDelivery::whole, CallDelivery::live}) {
      for (const std::size_t piece_bytes : {1u, 2u, 3u, 5u, 7u, 1000u}) {
        const OutputOptions options = options_of(golden_case, *tools, delivery);
        Transcript got = run_stream(cut(stream_of(golden_case), piece_bytes), options, cause);
        got.drop_open_calls();
        BOOST_TEST_CONTEXT(text_of(golden_case, "name") << " cut to " << piece_bytes) {
          BOOST_TEST(got == expected);
        }
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(every_golden_stream_gives_its_answer_when_cut_once_at_any_byte) {
  for (const Json& golden_case : golden_cases("parse.json")) {
    const auto tools = read_tools(golden_case.find("tools"), {});
    const EndCause cause = text_of(golden_case, "end") == "length" ? EndCause::length : EndCause::end_of_turn;
    const Stream stream = stream_of(golden_case);
    std::vector<Stream> cuts;
    for (std::size_t at = 0; at < text_bytes(stream); ++at) cuts.push_back(cut_once(stream, at));
    const StreamRunner runner(cuts);
    const OutputOptions options = options_of(golden_case, *tools, CallDelivery::whole);
    for (std::size_t at = 0; at < cuts.size(); ++at) {
      const Transcript got = runner.run(cuts[at], options, cause);
      BOOST_TEST_CONTEXT(text_of(golden_case, "name") << " cut at " << at) {
        BOOST_TEST(got == expected_of(golden_case));
      }
    }
  }
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace tandem::net::text::test
