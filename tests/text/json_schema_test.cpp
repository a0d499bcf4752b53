// Schemas that can be enforced, and values that conform or do not.
#include "net/text/json_schema.hpp"
#include "tests/text/golden_fixture.hpp"

#include <boost/test/unit_test.hpp>

namespace tandem::net::text::test {
namespace {

struct Row {
  const char* schema;
  const char* value;
  const char* violation;  // a part of it; "" : conforms
};

constexpr Row rows[] = {
    {"true", "5", ""},
    {"false", "5", "not allowed"},
    {"{}", "null", ""},
    {R"({"type":"integer"})", "7", ""},
    {R"({"type":"integer"})", "7.0", ""},
    {R"({"type":"integer"})", "123456789012345678901234567890", ""},
    {R"({"type":"integer"})", "7.5", "integer"},
    {R"({"type":"number"})", "7.5", ""},
    {R"({"type":["string","null"]})", "null", ""},
    {R"({"type":["string","null"]})", "1", "another type"},
    {R"({"type":"string","nullable":true})", "null", ""},
    {R"({"enum":["a",1]})", "1.0", ""},
    {R"({"enum":["a",1]})", "\"b\"", "enum"},
    {R"({"const":{"a":1,"b":[2]}})", R"({"b":[2],"a":1})", ""},
    {R"({"const":null})", "0", "constant"},
    {R"({"required":["a"]})", "{}", "\"a\""},
    {R"({"properties":{"a":{"type":"string"}}})", R"({"a":1})", "/a"},
    {R"({"properties":{"a":{}},"additionalProperties":false})", R"({"b":1})", "/b"},
    {R"({"additionalProperties":{"type":"boolean"}})", R"({"b":1})", "/b"},
    {R"({"items":{"type":"string"}})", R"(["a",2])", "/1"},
    {R"({"prefixItems":[{"type":"string"}],"items":{"type":"number"}})", R"(["a",2])", ""},
    {R"({"prefixItems":[{"type":"string"}],"items":false})", R"(["a",2])", "/1"},
    {R"({"minItems":1})", "[]", "minItems"},
    {R"({"maxItems":1})", "[1,2]", "maxItems"},
    {R"({"minLength":2,"maxLength":2})", "\"\u00e9\u00e9\"", ""},
    {R"({"maxLength":1})", "\"ab\"", "maxLength"},
    {R"({"minimum":1,"maximum":3})", "3", ""},
    {R"({"minimum":1})", "0.5", "minimum"},
    {R"({"exclusiveMaximum":3})", "3", "exclusiveMaximum"},
    {R"({"anyOf":[{"type":"string"},{"type":"null"}]})", "null", ""},
    {R"({"oneOf":[{"type":"string"},{"type":"null"}]})", "1", "oneOf"},
    {R"({"allOf":[{"minimum":1},{"maximum":3}]})", "4", "maximum"},
    {R"({"$ref":"#/$defs/a~1b","$defs":{"a/b":{"type":"string"}}})", "1", "string"},
    {R"({"properties":{"next":{"anyOf":[{"$ref":"#"},{"type":"null"}]}}})", R"({"next":{"next":null}})", ""},
    {R"({"properties":{"next":{"anyOf":[{"$ref":"#"},{"type":"null"}]}}})", R"({"next":{"next":1}})", ""},
    {R"({"type":"object","properties":{"next":{"$ref":"#"}}})", R"({"next":{"next":1}})", "/next/next"},
};

std::string reason(const char* schema, bool is_strict) {
  const Json root = json(schema);
  const auto error = judge_schema({root, is_strict}, "response_format");
  return error ? error->message : "";
}

}  // namespace

BOOST_AUTO_TEST_SUITE(json_schema)

BOOST_AUTO_TEST_CASE(values_conform_or_say_where_they_do_not) {
  for (const Row& row : rows) {
    BOOST_TEST_CONTEXT(row.schema << " and " << row.value) {
      const Json root = json(row.schema);
      BOOST_TEST(!judge_schema({root, true}, "f").has_value());
      const auto found = find_violation({root, false}, json(row.value));
      BOOST_TEST(found.has_value() == (row.violation[0] != 0));
      if (found) BOOST_TEST(found->find(row.violation) != std::string::npos, *found);
    }
  }
}

BOOST_AUTO_TEST_CASE(a_strict_object_has_no_other_members) {
  const Json root = json(R"({"properties":{"a":{}}})");
  BOOST_TEST(!find_violation({root, false}, json(R"({"b":1})")).has_value());
  BOOST_TEST(find_violation({root, true}, json(R"({"b":1})")).has_value());
}

BOOST_AUTO_TEST_CASE(what_cannot_be_enforced_is_refused_where_it_stands) {
  BOOST_TEST(reason(R"({"properties":{"a":{"pattern":"x"}}})", true).find("/properties/a/pattern") !=
             std::string::npos);
  BOOST_TEST(reason(R"({"properties":{"a":{"pattern":"x"}}})", false) == "");
  BOOST_TEST(reason(R"({"$ref":"#/nothing"})", false).find("/$ref") != std::string::npos);
  BOOST_TEST(reason(R"({"$ref":"http://elsewhere/"})", false) != "");
  BOOST_TEST(reason(R"({"anyOf":{}})", false).find("/anyOf") != std::string::npos);
  BOOST_TEST(reason(R"({"items":5})", false).find("/items") != std::string::npos);
  BOOST_TEST(reason(R"({"x":{"anyOf":5},"$ref":"#/x"})", false).find("anyOf") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(schemas_are_bounded) {
  const std::string big = R"({"description":")" + std::string(300 * 1024, 'a') + "\"}";
  BOOST_TEST(reason(big.c_str(), false).find("bytes") != std::string::npos);
  std::string many = R"({"anyOf":[true)";
  for (int i = 0; i < 10'000; ++i) many += ",true";
  many += "]}";
  BOOST_TEST(reason(many.c_str(), false).find("subschemas") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(references_that_lead_back_to_themselves_end) {
  for (const char* schema : {R"({"$ref":"#"})", R"({"anyOf":[{"$ref":"#"},{"$ref":"#"}]})"}) {
    const Json root = json(schema);
    BOOST_TEST(!judge_schema({root, false}, "f").has_value());
    BOOST_TEST(find_violation({root, false}, json("1")).has_value());
  }
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace tandem::net::text::test
