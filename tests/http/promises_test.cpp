// What a request is promised about its answer: JSON, JSON of a schema, a tool call. Kept, or an error; never an answer
// that only looks right.
#include "tests/http/server_fixture.hpp"

#include <fmt/format.h>
#include <boost/test/unit_test.hpp>

namespace tandem::net::http::test {
namespace {

const std::string json_object = R"(,"response_format":{"type":"json_object"},"enable_thinking":false)";
const std::string person = R"(,"enable_thinking":false,"response_format":{"type":"json_schema","json_schema":{
  "name":"person","strict":true,"schema":{"type":"object","properties":{"name":{"type":"string"},
  "age":{"type":"integer"}},"required":["name","age"]}}})";
const std::string tools = R"(,"tools":[
  {"type":"function","function":{"name":"add","parameters":{"type":"object","properties":{"a":{}}}}},
  {"type":"function","function":{"name":"now"}}])";
const std::string add_call =
    "\n\n<｜DSML｜ calls>\n<｜DSML｜ invoke name=\"add\">\n<｜DSML｜ parameter name=\"a\" "
    "string=\"false\">1</｜DSML｜ parameter>\n</｜DSML｜ invoke>\n</｜DSML｜ calls>";

std::string text_of(const std::vector<gpu::TokenId>& ids) {
  const std::vector<text::TokenId> plain(ids.begin(), ids.end());
  return tokenizer().decode(plain, text::AddedTokenText::written).value();
}

}  // namespace

BOOST_FIXTURE_TEST_SUITE(promises, ServerFixture)

BOOST_AUTO_TEST_CASE(an_answer_that_keeps_its_format_is_delivered) {
  for (const auto& [format, content] :
       {std::pair{json_object, R"({"a": [1, 2]})"}, std::pair{person, R"({"name": "Ada", "age": 36})"}}) {
    door.script = answer_script({content});
    for (const char* stream : {"", R"(,"stream":true)"}) {
      const Answer answer = chat(chat_body(format + stream));
      BOOST_TEST(answer.status == 200);
      BOOST_TEST(answer.body.find(R"("finish_reason":"stop")") != std::string::npos);
      BOOST_TEST(answer.body.find("error") == std::string::npos);
    }
  }
}

BOOST_AUTO_TEST_CASE(an_answer_that_breaks_its_format_is_an_error_that_says_where) {
  const std::vector<std::array<std::string, 3>> rows = {
      {json_object, "Sure: {}", "not JSON"},
      {json_object, "[1]", "no JSON object"},
      {person, R"({"name": "Ada"})", "age"},
      {person, R"({"name": "Ada", "age": "36"})", "/age"},
      {person, R"({"name": "Ada", "age": 36, "x": 1})", "/x"},
  };
  for (const auto& [format, content, place] : rows) {
    BOOST_TEST_CONTEXT(content) {
      door.script = answer_script({content});
      const Answer whole = chat(chat_body(format));
      BOOST_TEST(whole.status == 500);
      BOOST_TEST(string_at(json_of(whole.body), "error.code") == "invalid_answer");
      BOOST_TEST(string_at(json_of(whole.body), "error.message").find(place) != std::string::npos, whole.body);
      const Answer stream = chat(chat_body(format + R"(,"stream":true)"));
      BOOST_TEST(stream.body.find(R"("code":"invalid_answer")") != std::string::npos);
      BOOST_TEST(stream.body.find(R"("finish_reason":"stop")") == std::string::npos);
      BOOST_TEST(stream.body.ends_with("data: [DONE]\n\n"));
    }
  }
}

BOOST_AUTO_TEST_CASE(an_answer_that_was_cut_promises_nothing) {
  door.script = answer_script({R"({"name": "A)"});
  door.script->steps.pop_back();
  door.script->reason = actors::FinishReason::length;
  const text::Json json = json_of(chat(chat_body(person)).body);
  BOOST_TEST(string_at(json, "choices.0.finish_reason") == "length");
}

BOOST_AUTO_TEST_CASE(a_required_call_is_opened_for_the_model_behind_its_reasoning) {
  struct Row {
    const char* choice;
    std::string opening;
  };
  const std::string begin = "\n\n<｜DSML｜ calls>\n<｜DSML｜ invoke name=\"";
  const Row rows[] = {
      {R"("required")", begin},
      {R"({"type":"function","function":{"name":"add"}})", begin + "add\">\n"},
      {R"({"type":"function","function":{"name":"now"}})", begin + "now\">\n\n"},
      {R"("auto")", ""},
      {R"("none")", ""},
  };
  door.script = answer_script({"</think>", add_call});
  for (std::size_t i = 0; i < std::size(rows); ++i) {
    chat(chat_body(fmt::format(R"({},"tool_choice":{})", tools, rows[i].choice)));
    const auto request = door.request(i);
    BOOST_TEST(text_of(request.sampling.opening) == rows[i].opening);
    const bool is_forced = !rows[i].opening.empty();
    const auto think_end = static_cast<gpu::TokenId>(*tokenizer().id(text::Markup::think_close));
    BOOST_TEST(request.sampling.think_end_id == (is_forced ? think_end : -1));
  }
}

BOOST_AUTO_TEST_CASE(without_thinking_a_required_call_begins_at_once) {
  door.script = answer_script({add_call});
  const auto json = json_of(chat(chat_body(tools + R"(,"tool_choice":"required","enable_thinking":false)")).body);
  BOOST_TEST(string_at(json, "choices.0.finish_reason") == "tool_calls");
  BOOST_TEST(!door.request(0).sampling.opening.empty());
  BOOST_TEST(door.request(0).sampling.think_end_id == -1);
}

BOOST_AUTO_TEST_CASE(a_required_call_that_does_not_come_is_an_error) {
  door.script = answer_script({"</think>", "I would rather not."});
  const Answer answer = chat(chat_body(tools + R"(,"tool_choice":"required")"));
  BOOST_TEST(answer.status == 500);
  BOOST_TEST(string_at(json_of(answer.body), "error.message").find("tool_choice") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(a_required_call_of_a_tool_that_does_not_exist_is_an_error_and_not_delivered) {
  std::string invented = add_call;
  invented.replace(invented.find("\"add\""), 5, "\"subtract\"");
  for (const char* stream : {"", R"(,"stream":true)"}) {
    door.script = answer_script({"</think>", invented});
    const Answer answer = chat(chat_body(tools + R"(,"tool_choice":"required")" + stream));
    BOOST_TEST(answer.body.find(R"("code":"invalid_answer")") != std::string::npos);
    BOOST_TEST(answer.body.find("subtract") != std::string::npos);
    BOOST_TEST(answer.body.find("tool_calls") == std::string::npos);
  }
}

BOOST_AUTO_TEST_CASE(calls_may_take_the_place_of_the_promised_content) {
  door.script = answer_script({add_call});
  BOOST_TEST(string_at(json_of(chat(chat_body(tools + person)).body), "choices.0.finish_reason") == "tool_calls");
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace tandem::net::http::test
