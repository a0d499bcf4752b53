// A chat from request to answer, whole and streamed, against scripted tokens.
#include "tests/http/server_fixture.hpp"

#include <boost/test/unit_test.hpp>

namespace tandem::net::http::test {
namespace {

// The concatenated deltas of one member over a stream's events.
std::string joined(const std::vector<std::string>& events, std::string_view member) {
  std::string out;
  for (const std::string& event : events) {
    if (!event.starts_with("data: {")) continue;
    const text::Json delta = at(json_of(std::string_view(event).substr(6)), "choices.0.delta");
    if (const text::Json* piece = delta.find(member); piece != nullptr && piece->if_string() != nullptr)
      out += *piece->if_string();
  }
  return out;
}

}  // namespace

BOOST_FIXTURE_TEST_SUITE(chat, ServerFixture)

BOOST_AUTO_TEST_CASE(a_whole_answer_separates_reasoning_from_content_and_counts_both) {
  door.script = answer_script({"Two numbers", "</think>", "323", " it is"});
  const Answer answer = chat(chat_body());
  BOOST_TEST(answer.status == 200);
  const text::Json json = json_of(answer.body);
  BOOST_TEST(string_at(json, "object") == "chat.completion");
  BOOST_TEST(string_at(json, "model") == "tandem");
  BOOST_TEST(string_at(json, "choices.0.message.content") == "323 it is");
  BOOST_TEST(string_at(json, "choices.0.message.reasoning_content") == "Two numbers");
  BOOST_TEST(string_at(json, "choices.0.finish_reason") == "stop");
  std::size_t generated = 0;
  for (const auto& step : door.script->steps) generated += step.size();
  BOOST_TEST(number_at(json, "usage.completion_tokens") == std::to_string(generated));
  BOOST_TEST(number_at(json, "usage.completion_tokens_details.reasoning_tokens") ==
             std::to_string(door.script->steps[0].size()));
  BOOST_TEST(number_at(json, "usage.prompt_tokens") == std::to_string(door.request(0).prompt.size()));
}

BOOST_AUTO_TEST_CASE(a_stream_says_the_same_as_the_whole_answer) {
  door.script = answer_script({"Two", " numbers", "</think>", "323", " it", " is"});
  const Answer answer = chat(chat_body(R"(,"stream":true,"stream_options":{"include_usage":true})"));
  BOOST_TEST(answer.status == 200);
  BOOST_TEST(answer.headers.at("content-type") == "text/event-stream; charset=utf-8");
  BOOST_TEST(answer.headers.at("cache-control") == "no-cache, no-transform");
  const auto events = events_of(answer.body);
  BOOST_TEST(joined(events, "reasoning_content") == "Two numbers");
  BOOST_TEST(joined(events, "content") == "323 it is");
  BOOST_TEST(string_at(json_of(events.front().substr(6)), "choices.0.delta.role") == "assistant");
  BOOST_TEST(events.back() == "data: [DONE]\n\n");
  const text::Json usage = json_of(events[events.size() - 2].substr(6));
  BOOST_TEST(at(usage, "choices").if_array()->empty());
  BOOST_TEST(at(usage, "usage").if_object() != nullptr);
  BOOST_TEST(string_at(json_of(events[events.size() - 3].substr(6)), "choices.0.finish_reason") == "stop");
}

BOOST_AUTO_TEST_CASE(without_the_option_no_chunk_has_a_usage_key) {
  door.script = answer_script({"</think>", "ok"});
  const Answer answer = chat(chat_body(R"(,"stream":true)"));
  BOOST_TEST(answer.body.find("usage") == std::string::npos);
}

BOOST_AUTO_TEST_CASE(continuous_usage_counts_up_in_every_chunk) {
  door.script = answer_script({"</think>", "ok"});
  const Answer answer = chat(chat_body(R"(,"stream":true,"stream_options":{"continuous_usage_stats":true})"));
  for (const std::string& event : events_of(answer.body))
    if (event != "data: [DONE]\n\n") BOOST_TEST(at(json_of(event.substr(6)), "usage").if_object() != nullptr);
}

BOOST_AUTO_TEST_CASE(tool_calls_are_delivered_whole_with_distinct_ids) {
  door.script = answer_script({"</think>", "Checking",
                               "\n\n<｜DSML｜ calls>\n<｜DSML｜ invoke name=\"add\">\n<｜DSML｜ parameter name=\"a\" "
                               "string=\"false\">1</｜DSML｜ parameter>\n</｜DSML｜ invoke>\n<｜DSML｜ invoke "
                               "name=\"add\">\n\n</｜DSML｜ invoke>\n</｜DSML｜ calls>"});
  const std::string tools =
      R"(,"tools":[{"type":"function","function":{"name":"add","parameters":{"type":"object"}}}])";
  const text::Json json = json_of(chat(chat_body(tools)).body);
  BOOST_TEST(string_at(json, "choices.0.finish_reason") == "tool_calls");
  BOOST_TEST(string_at(json, "choices.0.message.content") == "Checking");
  BOOST_TEST(string_at(json, "choices.0.message.tool_calls.0.function.name") == "add");
  BOOST_TEST(string_at(json, "choices.0.message.tool_calls.0.function.arguments") == R"({"a": 1})");
  BOOST_TEST(string_at(json, "choices.0.message.tool_calls.1.function.arguments") == "{}");
  BOOST_TEST(string_at(json, "choices.0.message.tool_calls.0.id") !=
             string_at(json, "choices.0.message.tool_calls.1.id"));
}

BOOST_AUTO_TEST_CASE(without_tools_the_call_marker_is_forbidden) {
  door.script = answer_script({"ok"});
  chat(chat_body());
  const auto dsml = static_cast<gpu::TokenId>(*tokenizer().id(text::Markup::dsml));
  const auto forbidden = door.request(0).sampling.forbidden;
  BOOST_TEST((std::ranges::find(forbidden, dsml) != forbidden.end()));
}

BOOST_AUTO_TEST_CASE(a_stop_string_ends_the_answer_and_completes_the_generation) {
  HttpClient client = connect();
  client.send(post_text("/v1/chat/completions", chat_body(R"(,"stop":"END","enable_thinking":false)")));
  door.emit(0, tokens_of("one END two"));
  BOOST_TEST(door.wait_completed(0));
  const text::Json json = json_of(client.read_answer().body);
  BOOST_TEST(string_at(json, "choices.0.message.content") == "one ");
  BOOST_TEST(string_at(json, "choices.0.finish_reason") == "stop");
}

BOOST_AUTO_TEST_CASE(length_is_said_when_the_engine_ran_out) {
  door.script = answer_script({"</think>", "cut"});
  door.script->steps.pop_back();
  door.script->reason = actors::FinishReason::length;
  BOOST_TEST(string_at(json_of(chat(chat_body()).body), "choices.0.finish_reason") == "length");
}

BOOST_AUTO_TEST_CASE(several_choices_are_interleaved_and_have_derived_seeds) {
  door.script = answer_script({"</think>", "ok"});
  const text::Json json = json_of(chat(chat_body(R"(,"n":3,"seed":10)")).body);
  BOOST_TEST(at(json, "choices").if_array()->size() == 3U);
  BOOST_TEST(number_at(json, "choices.2.index") == "2");
  for (std::uint64_t choice = 0; choice < 3; ++choice) BOOST_TEST(door.request(choice).sampling.seed == 10 + choice);
}

BOOST_AUTO_TEST_CASE(a_stream_of_two_choices_finishes_each_once) {
  HttpClient client = connect();
  client.send(post_text("/v1/chat/completions", chat_body(R"(,"n":2,"stream":true,"enable_thinking":false)")));
  door.emit(1, tokens_of("b"));
  door.emit(0, tokens_of("a"));
  for (const std::size_t choice : {0U, 1U}) {
    door.emit(choice, end_of_turn());
    door.finish(choice, actors::FinishReason::stop);
  }
  const std::string body = client.read_answer().body;
  int finishes[2] = {0, 0};
  for (const std::string& event : events_of(body)) {
    if (event == "data: [DONE]\n\n") continue;
    const text::Json json = json_of(event.substr(6));
    if (string_at(json, "choices.0.finish_reason") == "stop") ++finishes[number_at(json, "choices.0.index") == "1"];
  }
  BOOST_TEST(finishes[0] == 1);
  BOOST_TEST(finishes[1] == 1);
}

BOOST_AUTO_TEST_CASE(every_generated_token_has_one_logprob_entry) {
  door.script = answer_script({"why", "</think>", "ok", " yes"});
  std::size_t generated = 0;
  for (const auto& step : door.script->steps) generated += step.size();
  for (const std::string stream : {"false", "true"}) {
    const Answer answer = chat(chat_body(R"(,"logprobs":true,"stream":)" + stream));
    std::size_t entries = 0;
    if (stream == "false") {
      entries = at(json_of(answer.body), "choices.0.logprobs.content").if_array()->size();
    } else {
      for (const std::string& event : events_of(answer.body)) {
        if (event == "data: [DONE]\n\n") continue;
        const text::Json list = at(json_of(event.substr(6)), "choices.0.logprobs.content");
        if (list.if_array() != nullptr) entries += list.if_array()->size();
      }
    }
    BOOST_TEST(entries == generated);
  }
}

BOOST_AUTO_TEST_CASE(an_error_after_the_head_is_an_event_and_then_done) {
  HttpClient client = connect();
  client.send(post_text("/v1/chat/completions", chat_body(R"(,"stream":true,"enable_thinking":false)")));
  door.emit(0, tokens_of("part"));
  door.finish(0, actors::FinishReason::error, "rank_lost", "A worker was lost and did not come back in time.");
  const auto events = events_of(client.read_answer().body);
  BOOST_REQUIRE(events.size() >= 3);
  BOOST_TEST(events.back() == "data: [DONE]\n\n");
  BOOST_TEST(
      events[events.size() - 2] ==
      "data: {\"error\":{\"message\":\"A worker was lost and did not come back in time.\",\"type\":\"server_error\","
      "\"param\":null,\"code\":\"rank_lost\"}}\n\n");
  BOOST_TEST(joined(events, "content") == "part");
}

BOOST_AUTO_TEST_CASE(an_end_without_acceptance_is_an_error_with_its_status) {
  door.script = Script{};
  door.script->is_accepted = false;
  door.script->reason = actors::FinishReason::error;
  door.script->error_code = "internal_error";
  door.script->error = "the scheduler did not answer";
  for (const char* stream : {"", R"(,"stream":true)", R"(,"n":3)"}) {
    const Answer answer = chat(chat_body(stream));
    BOOST_TEST(answer.status == 500);
    BOOST_TEST(string_at(json_of(answer.body), "error.code") == "internal_error", answer.body);
  }
}

BOOST_AUTO_TEST_CASE(a_stream_that_breaks_inside_ends_the_connection_and_not_as_a_whole_answer) {
  door.breaks_on_complete = true;
  HttpClient client = connect();
  client.send(post_text("/v1/chat/completions", chat_body(R"(,"stream":true,"stop":"END","enable_thinking":false)")));
  BOOST_TEST(client.read_head().status == 200);
  client.read_event();
  door.emit(0, tokens_of("one END two"));
  std::string last;
  for (std::string event = client.read_event(); !event.empty(); event = client.read_event()) last = event;
  BOOST_TEST(last != "data: [DONE]\n\n");
  BOOST_TEST(client.is_closed_by_server());
  door.breaks_on_complete = false;
  BOOST_TEST(get("/livez").status == 200);
}

BOOST_AUTO_TEST_CASE(refusals_of_the_actors_become_statuses) {
  struct Case {
    actors::RejectReason reason;
    int status;
    std::string code;
  };
  for (const Case& expected :
       {Case{actors::RejectReason::prompt_too_long, 400, "context_length_exceeded"},
        Case{actors::RejectReason::queue_full, 429, "rate_limit_exceeded"},
        Case{actors::RejectReason::not_ready, 503, "loading"}, Case{actors::RejectReason::draining, 503, "draining"}}) {
    door.rejection = actors::Rejection{expected.reason, "no", 7};
    const Answer answer = chat(chat_body(R"(,"stream":true)"));
    BOOST_TEST(answer.status == expected.status);
    BOOST_TEST(string_at(json_of(answer.body), "error.code") == expected.code);
    BOOST_TEST(answer.headers.contains("retry-after") == (expected.status != 400));
  }
}

BOOST_AUTO_TEST_CASE(a_prompt_beyond_the_context_names_both_lengths) {
  door.state.engine.max_positions = 8;
  const Answer answer =
      chat(R"({"messages":[{"role":"user","content":"one two three four five six seven eight nine ten"}]})");
  BOOST_TEST(answer.status == 400);
  const text::Json json = json_of(answer.body);
  BOOST_TEST(string_at(json, "error.code") == "context_length_exceeded");
  BOOST_TEST(string_at(json, "error.message")
                 .starts_with("This model's maximum context length is 8 tokens. However, your messages resulted in "));
}

BOOST_AUTO_TEST_CASE(the_answer_repeats_the_alias_that_was_asked_for) {
  door.script = answer_script({"ok"});
  BOOST_TEST(string_at(json_of(chat(chat_body(R"(,"model":"alias/one")")).body), "model") == "alias/one");
}

BOOST_AUTO_TEST_CASE(legacy_functions_are_answered_with_tool_calls) {
  door.script = answer_script(
      {"</think>", "<｜DSML｜ calls>\n<｜DSML｜ invoke name=\"f\">\n\n</｜DSML｜ invoke>\n</｜DSML｜ calls>"});
  const text::Json json = json_of(chat(chat_body(R"(,"functions":[{"name":"f"}],"function_call":"auto")")).body);
  BOOST_TEST(string_at(json, "choices.0.message.tool_calls.0.function.name") == "f");
  BOOST_TEST(at(json, "choices.0.message.content").is_null());
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace tandem::net::http::test
