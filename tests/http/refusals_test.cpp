// Requests that must be refused, as one table: status, type, param and code of each, and the server goes on.
#include "tests/http/server_fixture.hpp"

#include <fmt/format.h>
#include <boost/test/unit_test.hpp>

namespace tandem::net::http::test {
namespace {

struct BadBody {
  std::string body;
  std::string param;  // "" : null
  std::string code;   // "" : null
  int status = 400;
};

std::string text_or_empty(const text::Json& json, std::string_view path) {
  const text::Json value = at(json, path);
  return value.if_string() == nullptr ? "" : *value.if_string();
}

std::string many(std::string_view piece, int count) {
  std::string out;
  for (int i = 0; i < count; ++i) out += (i == 0 ? "" : ",") + std::string(piece);
  return out;
}

std::string biases(int count) {
  std::string out;
  for (int i = 0; i < count; ++i) out += (i == 0 ? "\"" : ",\"") + std::to_string(i) + "\":1";
  return out;
}

std::string with(std::string_view more) {
  return chat_body("," + std::string(more));
}

const std::string two_tools =
    R"("tools":[{"type":"function","function":{"name":"a"}},{"type":"function","function":{"name":"b"}}])";

std::string allowed(std::string_view mode) {
  return fmt::format(
      R"({{"type":"allowed_tools","mode":"{}","tools":[{{"type":"function","function":{{"name":"a"}}}}]}})", mode);
}

// `schema` may bring further members of the inner object along.
std::string schema_format(std::string_view schema) {
  return fmt::format(R"("response_format":{{"type":"json_schema","json_schema":{{"name":"x","schema":{}}}}})", schema);
}

std::vector<BadBody> bad_documents() {
  return {
      {"", "", "invalid_json"},
      {"{", "", "invalid_json"},
      {"[]", "", "invalid_json"},
      {"null", "", "invalid_json"},
      {"{} {}", "", "invalid_json"},
      {"{\"messages\":[1,]}", "", "invalid_json"},
      {with("\"temperature\":NaN"), "", "invalid_json"},
      {with("\"temperature\":01"), "", "invalid_json"},
      {with("\"seed\":1,\"seed\":2"), "", "invalid_json"},
      {with("\"user\":\"\xff\""), "", "invalid_json"},
      {with("\"x\":" + std::string(200, '[') + std::string(200, ']')), "", "invalid_json"},
      {"{}", "messages", ""},
      {R"({"messages":null})", "messages", ""},
      {R"({"messages":"hi"})", "messages", ""},
      {R"({"messages":[]})", "messages", ""},
      {R"({"messages":[{"role":"robot","content":"x"}]})", "messages[0].role", ""},
      {R"({"messages":[{"role":"user","content":5}]})", "messages[0].content", ""},
      {with(R"("model":"gpt-9")"), "model", "model_not_found", 404},
      {with(R"("model":"")"), "model", "model_not_found", 404},
      {with(R"("model":5)"), "model", ""},
      {with(R"("max_tokens":3,"max_t\u006fkens":4)"), "", "invalid_json"},
  };
}

std::vector<BadBody> bad_fields() {
  return {
      {with(R"("temperature":-0.1)"), "temperature", ""},
      {with(R"("temperature":2.1)"), "temperature", ""},
      {with(R"("temperature":"1")"), "temperature", ""},
      {with(R"("temperature":1e400)"), "temperature", ""},
      {with(R"("top_p":0)"), "top_p", ""},
      {with(R"("top_p":1.01)"), "top_p", ""},
      {with(R"("top_k":-2)"), "top_k", ""},
      {with(R"("top_k":1.5)"), "top_k", ""},
      {with(R"("min_p":1.5)"), "min_p", ""},
      {with(R"("presence_penalty":3)"), "presence_penalty", ""},
      {with(R"("frequency_penalty":-2.5)"), "frequency_penalty", ""},
      {with(R"("repetition_penalty":0)"), "repetition_penalty", ""},
      {with(R"("repetition_penalty":true)"), "repetition_penalty", ""},
      {with(R"("max_tokens":0)"), "max_tokens", ""},
      {with(R"("max_tokens":-1)"), "max_tokens", ""},
      {with(R"("max_tokens":"12")"), "max_tokens", ""},
      {with(R"("max_completion_tokens":1.5)"), "max_completion_tokens", ""},
      {with(R"("max_tokens":9223372036854775808)"), "max_tokens", ""},
      {with(R"("seed":9223372036854775808)"), "seed", ""},
      {with(R"("seed":"1")"), "seed", ""},
      {with(R"("n":0)"), "n", ""},
      {with(R"("n":17)"), "n", ""},
      {with(R"("n":2,"best_of":3)"), "best_of", "unsupported_value"},
      {with(R"("use_beam_search":true)"), "use_beam_search", "unsupported_value"},
      {with(R"("stop":"")"), "stop", ""},
      {with(R"("stop":[1])"), "stop", ""},
      {with("\"stop\":[" + many("\"a\"", 17) + "]"), "stop", ""},
      {with("\"stop\":\"" + std::string(257, 'a') + "\""), "stop", ""},
      {with(R"("stop_token_ids":[-1])"), "stop_token_ids", ""},
      {with(R"("stop_token_ids":[4096])"), "stop_token_ids", ""},
      {with(R"("stop_token_ids":5)"), "stop_token_ids", ""},
      {with(R"("logit_bias":[])"), "logit_bias", ""},
      {with(R"("logit_bias":{"x":1})"), "logit_bias", ""},
      {with(R"("logit_bias":{"4096":1})"), "logit_bias", ""},
      {with(R"("logit_bias":{"1":101})"), "logit_bias", ""},
      {with(R"("logit_bias":{"1":"5"})"), "logit_bias", ""},
      {with("\"logit_bias\":{" + biases(1025) + "}"), "logit_bias", ""},
  };
}

std::vector<BadBody> bad_answers() {
  return {
      {with(R"("logprobs":5)"), "logprobs", ""},
      {with(R"("top_logprobs":3)"), "top_logprobs", ""},
      {with(R"("logprobs":true,"top_logprobs":21)"), "top_logprobs", ""},
      {with(R"("stream":"yes")"), "stream", ""},
      {with(R"("stream_options":[])"), "stream_options", ""},
      {with(R"("stream_options":{"include_usage":1})"), "stream_options.include_usage", ""},
      {with(R"("min_tokens":-1)"), "min_tokens", ""},
      {with(R"("ignore_eos":"no")"), "ignore_eos", ""},
      {with(R"("prompt_logprobs":1)"), "prompt_logprobs", "unsupported_value"},
      {with(R"("truncate_prompt_tokens":5)"), "truncate_prompt_tokens", "unsupported_value"},
      {with(R"("audio":{})"), "audio", "unsupported_value"},
      {with(R"("modalities":["text","audio"])"), "modalities", "unsupported_value"},
      {with(R"("web_search_options":{})"), "web_search_options", "unsupported_value"},
      {with(R"("guided_regex":"a")"), "guided_regex", "unsupported_value"},
      {with(R"("reasoning_effort":0)"), "reasoning_effort", ""},
      {with(R"("reasoning_effort":"huge")"), "reasoning_effort", ""},
      {with(R"("tool_choice":"required")"), "tool_choice", ""},
      {with(two_tools + R"(,"tool_choice":)" + allowed("auto")), "tool_choice", "unsupported_value"},
      {with(R"("functions":"add")"), "functions", ""},
      {with(R"("functions":{})"), "functions", ""},
      {with(R"("function_call":5)"), "function_call", ""},
      {with(R"("function_call":"always")"), "function_call", ""},
      {with(R"("function_call":{"name":"add"})"), "function_call", ""},
      {with(R"("metadata":"x")"), "metadata", ""},
      {with(R"("user":5)"), "user", ""},
      {with(R"("safety_identifier":[])"), "safety_identifier", ""},
      {with(R"("service_tier":1)"), "service_tier", ""},
      {with(R"("cache_salt":{})"), "cache_salt", ""},
      {with(R"("prompt_cache_key":7)"), "prompt_cache_key", ""},
      {with(R"("store":"yes")"), "store", ""},
      {with(R"("enable_thinking":"no")"), "enable_thinking", ""},
      {with(R"("thinking":{"type":"enabled"},"enable_thinking":1)"), "enable_thinking", ""},
      {with(R"("thinking_token_budget":1e30)"), "thinking_token_budget", ""},
      {with(R"("response_format":"json")"), "response_format", ""},
      {with(R"("response_format":{"type":"xml"})"), "response_format", ""},
      {with(schema_format(R"({"$ref":"#/none"})")), "response_format", "invalid_schema"},
      {with(schema_format(R"({"properties":5})")), "response_format", "invalid_schema"},
      {with(schema_format(R"({"pattern":"a+"},"strict":true)")), "response_format", "invalid_schema"},
      {with(R"("tools":[{"type":"function"}])"), "tools", ""},
      {with(R"("continue_final_message":true)"), "continue_final_message", ""},
      {with(R"("add_generation_prompt":false)"), "add_generation_prompt", ""},
  };
}

}  // namespace

BOOST_FIXTURE_TEST_SUITE(refusals, ServerFixture)

BOOST_AUTO_TEST_CASE(every_bad_body_is_refused_by_name_and_the_connection_goes_on) {
  HttpClient client = connect();
  std::vector<BadBody> bodies = bad_documents();
  for (auto& table : {bad_fields(), bad_answers()}) bodies.insert(bodies.end(), table.begin(), table.end());
  for (const BadBody& bad : bodies) {
    BOOST_TEST_CONTEXT("body " << bad.body.substr(0, 160)) {
      const Answer answer = client.post("/v1/chat/completions", bad.body);
      BOOST_TEST(answer.status == bad.status);
      const text::Json json = json_of(answer.body);
      BOOST_TEST(text_or_empty(json, "error.type") ==
                 (bad.status == 404 ? "not_found_error" : "invalid_request_error"));
      BOOST_TEST(text_or_empty(json, "error.param") == bad.param);
      BOOST_TEST(text_or_empty(json, "error.code") == bad.code);
      BOOST_TEST(!text_or_empty(json, "error.message").empty());
    }
  }
  BOOST_TEST(door.submitted() == 0U);
  door.script = answer_script({"</think>", "ok"});
  BOOST_TEST(client.post("/v1/chat/completions", chat_body()).status == 200);
}

BOOST_AUTO_TEST_CASE(values_at_their_limits_are_accepted) {
  door.script = answer_script({"</think>", "ok"});
  for (const std::string more : {R"("temperature":0)",
                                 R"("temperature":2)",
                                 R"("top_p":1)",
                                 R"("top_k":-1)",
                                 R"("top_k":0)",
                                 R"("min_p":1)",
                                 R"("n":16)",
                                 R"("seed":-9223372036854775808)",
                                 R"("seed":9223372036854775807)",
                                 R"("max_tokens":1.0)",
                                 R"("stop":null)",
                                 R"("stop_token_ids":[0,4095])",
                                 R"("logit_bias":{"0":-100,"4095":100})",
                                 R"("logprobs":true,"top_logprobs":20)",
                                 R"("best_of":1)",
                                 R"("modalities":["text"])",
                                 R"("unknown_field":{"a":[1]})",
                                 R"("response_format":{"type":"text"})",
                                 R"("parallel_tool_calls":false)",
                                 R"("tools":[])",
                                 R"("repetition_penalty":2)"}) {
    const Answer answer = chat(chat_body("," + more));
    BOOST_TEST(answer.status == 200, more << " gave " << answer.body);
  }
}

BOOST_AUTO_TEST_CASE(a_byte_order_mark_is_skipped) {
  door.script = answer_script({"</think>", "ok"});
  BOOST_TEST(chat("\xEF\xBB\xBF" + chat_body()).status == 200);
}

BOOST_AUTO_TEST_CASE(fields_reach_the_engine_as_given) {
  door.script = answer_script({"</think>", "ok"});
  chat(chat_body(
      R"(,"temperature":0.5,"top_p":0.25,"top_k":7,"min_p":0.125,"presence_penalty":-1,"frequency_penalty":1.5,)"
      R"("repetition_penalty":1.25,"seed":-3,"max_completion_tokens":9,"max_tokens":5,"min_tokens":2,)"
      R"("logit_bias":{"3":-100,"4":2.5},"stop_token_ids":[17],"thinking_token_budget":11)"));
  const actors::GenerationRequest request = door.request(0);
  const gpu::SamplingParams& sampling = request.sampling;
  BOOST_TEST(sampling.temperature == 0.5F);
  BOOST_TEST(sampling.top_p == 0.25F);
  BOOST_TEST(sampling.top_k == 7);
  BOOST_TEST(sampling.min_p == 0.125F);
  BOOST_TEST(sampling.presence_penalty == -1.0F);
  BOOST_TEST(sampling.frequency_penalty == 1.5F);
  BOOST_TEST(sampling.repetition_penalty == 1.25F);
  BOOST_TEST(sampling.seed == static_cast<std::uint64_t>(-3));
  BOOST_TEST(sampling.min_tokens == 2U);
  BOOST_TEST(request.max_tokens == 9U);
  BOOST_TEST(sampling.forbidden.front() == 3);
  BOOST_TEST(sampling.logit_bias.front().token == 4);
  BOOST_TEST(sampling.thinking_budget == 11);
  BOOST_TEST((std::ranges::find(request.stop_ids, 17) != request.stop_ids.end()));
}

BOOST_AUTO_TEST_CASE(more_tokens_than_can_be_counted_are_as_many_as_can_be) {
  door.script = answer_script({"</think>", "ok"});
  std::size_t index = 0;
  for (const char* limit : {R"("max_tokens":2147483647)", R"("max_tokens":2147483648)",
                            R"("max_completion_tokens":9223372036854775807,"max_tokens":5)"}) {
    BOOST_TEST(chat(chat_body(std::string(",") + limit)).status == 200, limit);
    BOOST_TEST(door.request(index++).max_tokens == 2147483647U, limit);
  }
}

BOOST_AUTO_TEST_CASE(ignore_eos_takes_the_end_of_turn_out_of_the_stops) {
  door.script = answer_script({"</think>", "ok"});
  chat(chat_body(R"(,"ignore_eos":true)"));
  BOOST_TEST(door.request(0).stop_ids.empty());
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace tandem::net::http::test
