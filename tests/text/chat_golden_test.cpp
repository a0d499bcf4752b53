// The prompt cases of the golden file: exact prompt and parser start, or the status and the field of the refusal.
#include "net/text/chat.hpp"
#include "tests/text/golden_fixture.hpp"
#include "tests/text/tokenizer_fixture.hpp"

#include <boost/test/unit_test.hpp>

namespace tandem::net::text::test {
namespace {

RequestResult<WrittenPrompt> prompt_of(const Json& golden_case) {
  const auto request = ChatRequest::from_json(*golden_case.find("request"), {});
  if (!request) return request.error();
  return write_chat_prompt(*request);
}

void check_refusal(const RequestResult<WrittenPrompt>& prompt, const Json& expected) {
  BOOST_REQUIRE(prompt.has_error());
  BOOST_TEST(std::to_string(prompt.error().status) == expected.find("status")->if_number()->text);
  BOOST_TEST(prompt.error().param == text_of(expected, "param"));
  BOOST_TEST(!prompt.error().message.empty());
}

}  // namespace

BOOST_AUTO_TEST_SUITE(chat_golden)

BOOST_AUTO_TEST_CASE(every_golden_request_gives_its_prompt_or_its_refusal) {
  const JsonArray& cases = golden_cases("encode.json");
  BOOST_TEST(cases.size() == 74u);
  for (const Json& golden_case : cases) {
    BOOST_TEST_CONTEXT(text_of(golden_case, "name")) {
      const auto prompt = prompt_of(golden_case);
      if (const Json* refusal = golden_case.find("error")) {
        check_refusal(prompt, *refusal);
        continue;
      }
      BOOST_REQUIRE(prompt.has_value());
      BOOST_TEST(render(prompt->segments) == text_of(golden_case, "prompt"));
      const bool thinks = prompt->start == ParserStart::reasoning;
      BOOST_TEST(thinks == (text_of(golden_case, "parser_start") == "reasoning"));
    }
  }
}

BOOST_AUTO_TEST_CASE(the_ids_of_every_golden_prompt_spell_the_prompt) {
  for (const Json& golden_case : golden_cases("encode.json")) {
    if (golden_case.find("error") != nullptr) continue;
    const auto request = ChatRequest::from_json(*golden_case.find("request"), {});
    const auto prompt = encode_prompt(*request, small_tokenizer());
    BOOST_REQUIRE(prompt.has_value());
    BOOST_TEST(*small_tokenizer().decode(prompt->ids, AddedTokenText::written) == text_of(golden_case, "prompt"));
  }
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace tandem::net::text::test
