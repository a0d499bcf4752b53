// The exact bytes of a stream, against bodies that five client libraries were seen to read.
#include "net/http/chat_writer.hpp"
#include "net/http/error_body.hpp"
#include "tests/build_paths.hpp"
#include "tests/http/server_fixture.hpp"

#include <boost/test/unit_test.hpp>

#include <fstream>
#include <regex>
#include <sstream>

namespace tandem::net::http::test {
namespace {

using text::Event;
using text::EventKind;

text::Json wire_file() {
  std::ifstream file{source_folder().string() + "/tests/golden/chat/wire.json"};
  std::stringstream text;
  text << file.rdbuf();
  return json_of(text.str());
}

// Call ids are random: every one becomes the same text.
std::string without_call_ids(const std::string& body) {
  return std::regex_replace(body, std::regex{"call_[0-9A-Za-z]{24}"}, "call_X");
}

ChatWriter wire_writer(bool includes_usage) {
  ChatFrame frame;
  frame.id = "chatcmpl-000000000000000000000001";
  frame.created = 1790000000;
  frame.model = "tandem";
  frame.fingerprint = "fp_test";
  frame.includes_usage = includes_usage;
  return ChatWriter{frame, false};
}

constexpr ChatUsage usage{120, 64, 41, 6};

// The golden script through the writer up to its last events; one call of event_chunks a piece, as when each arrives in
// its own step.
std::string begun(bool includes_usage, const std::vector<Event>& tail, bool has_calls) {
  const ChatWriter writer = wire_writer(includes_usage);
  std::string logprobs;
  std::string out = writer.role_chunk(0, usage) + std::string(keepalive_comment);
  std::vector<Event> events{{EventKind::reasoning, "Need data", 0, {}},
                            {EventKind::reasoning, " for both.", 0, {}},
                            {EventKind::content, "Checking", 0, {}},
                            {EventKind::content, " two cities.", 0, {}}};
  if (has_calls) {
    const std::string arguments[] = {R"({"city": "Huế"})", R"({"city": "Durban", "days": 2})"};
    for (const std::size_t index : {0U, 1U}) {
      events.push_back({EventKind::call_begin, "get_weather", index, {}});
      events.push_back({EventKind::call_args, arguments[index], index, {}});
      events.push_back({EventKind::call_end, "", index, {}});
    }
  }
  events.insert(events.end(), tail.begin(), tail.end());
  for (const Event& event : events) out += writer.event_chunks(0, {event}, logprobs, usage);
  return out;
}

std::string written(bool includes_usage, const std::vector<Event>& tail, bool has_calls) {
  return begun(includes_usage, tail, has_calls) + wire_writer(includes_usage).last_events(usage);
}

Event finish(text::FinishReason reason) {
  return {EventKind::finish, "", 0, reason};
}

}  // namespace

BOOST_AUTO_TEST_SUITE(chat_wire)

BOOST_AUTO_TEST_CASE(streams_equal_the_recorded_bodies_up_to_call_ids) {
  const text::Json file = wire_file();
  const auto expect = [&](std::string_view name, const std::string& body) {
    BOOST_TEST(without_call_ids(body) == without_call_ids(string_at(file, "bodies." + std::string(name))), name);
  };
  expect("chat_tools_usage", written(true, {finish(text::FinishReason::tool_calls)}, true));
  expect("chat_tools_no_usage", written(false, {finish(text::FinishReason::tool_calls)}, true));
  expect("chat_stop", written(true, {finish(text::FinishReason::stop)}, false));
  expect("chat_length", written(true, {finish(text::FinishReason::length)}, false));
  const ApiError lost{500, "A worker was lost and did not come back in time.", "", "rank_lost", 0};
  expect("chat_error", begun(true, {}, false) + error_events(lost));
}

BOOST_AUTO_TEST_CASE(neighbours_of_one_kind_are_one_delta) {
  std::string logprobs;
  const std::string out = wire_writer(false).event_chunks(
      0, {{EventKind::content, "a", 0, {}}, {EventKind::content, "b", 0, {}}}, logprobs, {});
  BOOST_TEST(events_of(out).size() == 1U);
  BOOST_TEST(out.find(R"("content":"ab")") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(long_arguments_are_cut_at_characters) {
  std::string arguments;
  while (arguments.size() < 10'001) arguments += "ế";
  std::string logprobs, joined;
  const std::string out = wire_writer(false).event_chunks(0, {{EventKind::call_args, arguments, 0, {}}}, logprobs, {});
  for (const std::string& event : events_of(out)) {
    const std::string piece = string_at(json_of(event.substr(6)), "choices.0.delta.tool_calls.0.function.arguments");
    BOOST_TEST(piece.size() <= 4096U);
    joined += piece;
  }
  BOOST_TEST(joined == arguments);
}

BOOST_AUTO_TEST_CASE(logprobs_wait_for_the_next_chunk) {
  std::string logprobs = R"({"token":"x"})";
  const ChatWriter writer = wire_writer(false);
  BOOST_TEST(writer.event_chunks(0, {}, logprobs, {}).empty());
  BOOST_TEST(!logprobs.empty());
  const std::string out = writer.event_chunks(0, {{EventKind::content, "x", 0, {}}}, logprobs, {});
  BOOST_TEST(out.find(R"("logprobs":{"content":[{"token":"x"}],"refusal":null})") != std::string::npos);
  BOOST_TEST(logprobs.empty());
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace tandem::net::http::test
