// Arguments of a call: repairs by the schema, unwrapping, and always valid JSON.
#include "net/text/call_arguments.hpp"
#include "net/text/json/parse.hpp"
#include "tests/text/golden_fixture.hpp"

#include <boost/test/unit_test.hpp>

namespace tandem::net::text::test {
namespace {

struct Given {
  std::string key;
  std::optional<bool> is_string;
  std::string value;
};

Tool tool_with(std::string_view properties) {
  Tool tool;
  tool.name = "f";
  tool.function =
      json(R"({"name": "f", "parameters": {"type": "object", "properties": )" + std::string(properties) + "}}");
  return tool;
}

std::string arguments(const Tool* tool, const std::vector<Given>& parameters) {
  CallArguments call(tool);
  for (const Given& given : parameters) {
    call.begin(given.key, given.is_string);
    for (const char c : given.value) call.value(std::string_view(&c, 1));
    call.end();
  }
  call.finish();
  const std::string text = call.take();
  BOOST_TEST(is_json(text));
  return text;
}

// One parameter "p" with a schema of its own.
std::string repaired(std::string_view schema, std::optional<bool> is_string, const std::string& value) {
  const Tool tool = tool_with(R"({"p": )" + std::string(schema) + "}");
  const std::string text = arguments(&tool, {{"p", is_string, value}});
  return text.substr(6, text.size() - 7);
}

}  // namespace

BOOST_AUTO_TEST_SUITE(arguments_of_calls)

BOOST_AUTO_TEST_CASE(the_attribute_decides_where_the_schema_says_nothing) {
  BOOST_TEST(repaired("{}", true, "5") == "\"5\"");
  BOOST_TEST(repaired("{}", false, " [1, 2.50] ") == "[1, 2.50]");
  BOOST_TEST(repaired("{}", false, "NaN") == "\"NaN\"");
  BOOST_TEST(repaired("{}", false, "") == "\"\"");
  BOOST_TEST(repaired("{}", std::nullopt, "5") == "\"5\"");
  BOOST_TEST(arguments(nullptr, {{"x", false, "1"}, {"y", true, "a\"b"}}) == R"({"x": 1, "y": "a\"b"})");
}

BOOST_AUTO_TEST_CASE(a_string_becomes_the_value_that_the_schema_wants_if_it_is_one) {
  struct Row {
    const char *schema, *value, *expected;
  };
  for (const Row& row :
       std::initializer_list<Row>{{R"({"type": "integer"})", " 5 ", "5"},
                                  {R"({"type": "integer"})", "5.5", "\"5.5\""},
                                  {R"({"type": "number"})", "5", "5"},
                                  {R"({"type": "number"})", "5.5", "5.5"},
                                  {R"({"type": "boolean"})", "true", "true"},
                                  {R"({"type": "boolean"})", "True", "\"True\""},
                                  {R"({"type": "array"})", "[1]", "[1]"},
                                  {R"({"type": "object"})", "{\"a\":1}", "{\"a\":1}"},
                                  {R"({"type": ["integer", "null"]})", "null", "null"},
                                  {R"({"type": "integer", "nullable": true})", "null", "null"},
                                  {R"({"type": ["integer", "string"]})", "5", "\"5\""},
                                  {R"({"anyOf": [{"type": "integer"}, {"type": "null"}]})", "7", "7"},
                                  {R"({"anyOf": [{"type": "integer"}, {"$ref": "#/x"}]})", "7", "\"7\""},
                                  {R"({"enum": [1, 2]})", "2", "2"},
                                  {R"({"enum": ["1", "2"]})", "2", "\"2\""},
                                  {R"({"const": true})", "true", "true"},
                                  {R"({"type": "mystery"})", "5", "\"5\""}}) {
    BOOST_TEST_CONTEXT(row.schema << " " << row.value) {
      BOOST_TEST(repaired(row.schema, true, row.value) == row.expected);
    }
  }
}

BOOST_AUTO_TEST_CASE(a_value_becomes_a_string_where_only_strings_are_admitted) {
  BOOST_TEST(repaired(R"({"type": "string"})", false, "12345") == "\"12345\"");
  BOOST_TEST(repaired(R"({"type": "string"})", false, " \"x\" ") == "\"x\"");
  BOOST_TEST(repaired(R"({"type": "string"})", false, " 1 ") == "\" 1 \"");
  BOOST_TEST(repaired(R"({"type": ["string", "null"]})", false, "null") == "null");
  BOOST_TEST(repaired(R"({"type": "string"})", std::nullopt, "1") == "\"1\"");
  BOOST_TEST(repaired(R"({"type": "integer"})", std::nullopt, "1") == "1");
}

BOOST_AUTO_TEST_CASE(the_first_value_of_a_repeated_key_stands) {
  BOOST_TEST(arguments(nullptr, {{"a", true, "1"}, {"a", true, "2"}, {"b", false, "3"}, {"a", false, "4"}}) ==
             R"({"a": "1", "b": 3})");
}

BOOST_AUTO_TEST_CASE(one_unknown_wrapper_of_known_keys_is_unwrapped) {
  const Tool tool = tool_with(R"({"city": {"type": "string"}, "days": {"type": "integer"}})");
  BOOST_TEST(arguments(&tool, {{"arguments", false, R"({"city": "Hue"})"}}) == R"({"city": "Hue"})");
  BOOST_TEST(arguments(&tool, {{"input", true, R"( {"days": 2} )"}}) == R"({"days": 2})");
  BOOST_TEST(arguments(&tool, {{"arguments", false, "{}"}}) == "{}");
  BOOST_TEST(arguments(&tool, {{"arguments", false, R"({"town": 1})"}}) == R"({"arguments": {"town": 1}})");
  BOOST_TEST(arguments(&tool, {{"arguments", false, "[1]"}}) == R"({"arguments": [1]})");
  BOOST_TEST(arguments(&tool, {{"arguments", false, R"({"city": "H"})"}, {"days", false, "1"}}) ==
             R"({"arguments": {"city": "H"}, "days": 1})");
  BOOST_TEST(arguments(&tool, {{"city", true, "H"}, {"input", false, "{}"}}) == R"({"city": "H", "input": {}})");
  BOOST_TEST(arguments(nullptr, {{"arguments", false, "{}"}}) == R"({"arguments": {}})");
  const Tool has_input = tool_with(R"({"input": {"type": "object"}})");
  BOOST_TEST(arguments(&has_input, {{"input", false, "{}"}}) == R"({"input": {}})");
}

BOOST_AUTO_TEST_CASE(a_plain_string_is_given_out_as_it_comes_and_a_doubtful_one_when_it_is_complete) {
  const Tool tool = tool_with(R"({"text": {"type": "string"}, "days": {"type": "integer"}})");
  CallArguments call(&tool);
  call.begin("text", true);
  call.value("ab");
  BOOST_TEST(call.take() == R"({"text": "ab)");
  call.value("\n");
  BOOST_TEST(call.take() == "\\n");
  call.end();
  BOOST_TEST(call.take() == "\"");
  call.begin("days", true);
  call.value("5");
  BOOST_TEST(call.take() == "");
  call.end();
  BOOST_TEST(call.take() == R"(, "days": 5)");
  call.finish();
  BOOST_TEST(call.take() == "}");
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace tandem::net::text::test
