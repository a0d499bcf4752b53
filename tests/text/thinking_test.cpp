// The switches of thinking: precedence, spellings, refusals.
#include "net/text/thinking.hpp"
#include "tests/text/golden_fixture.hpp"

#include <boost/test/unit_test.hpp>

namespace tandem::net::text::test {
namespace {

struct Row {
  const char* body;
  bool is_on;
  int effort;
};

void check(const Row& row, const ReasoningConfig& config = {}) {
  BOOST_TEST_CONTEXT(row.body) {
    const auto thinking = read_thinking(json(row.body), config);
    BOOST_REQUIRE(thinking.has_value());
    BOOST_TEST(thinking->is_on == row.is_on);
    BOOST_TEST(thinking->effort == row.effort);
  }
}

void check_refused(const char* body, const char* param) {
  BOOST_TEST_CONTEXT(body) {
    const auto thinking = read_thinking(json(body), {});
    BOOST_REQUIRE(thinking.has_error());
    BOOST_TEST(thinking.error().status == 400);
    BOOST_TEST(thinking.error().param == param);
  }
}

}  // namespace

BOOST_AUTO_TEST_SUITE(thinking_switches)

BOOST_AUTO_TEST_CASE(the_first_switch_that_is_present_wins) {
  check({R"({})", true, 75});
  check({R"({"enable_thinking": false})", false, 75});
  check({R"({"enable_thinking": null})", true, 75});
  check({R"({"reasoning": {"enabled": false}})", false, 75});
  check({R"({"enable_thinking": true, "reasoning": {"enabled": false}})", true, 75});
  check({R"({"thinking": {"type": "disabled"}, "enable_thinking": true})", false, 75});
  check({R"({"chat_template_kwargs": {"thinking_mode": "thinking"}, "thinking": {"type": "disabled"}})", true, 75});
  check({R"({"chat_template_kwargs": {"thinking_mode": "chat"}})", false, 75});
  check({R"({"chat_template_kwargs": {"thinking": false, "thinking_mode": "thinking"}})", false, 75});
  check({R"({"chat_template_kwargs": {"thinking": false, "enable_thinking": true}})", true, 75});
}

BOOST_AUTO_TEST_CASE(an_effort_of_none_is_off_wherever_it_stands) {
  check({R"({"reasoning_effort": "none", "chat_template_kwargs": {"thinking": true}})", false, 75});
  check({R"({"reasoning": {"effort": "none"}})", false, 75});
  check({R"({"chat_template_kwargs": {"reasoning_effort": "none"}, "reasoning_effort": "high"})", false, 75});
}

BOOST_AUTO_TEST_CASE(the_first_effort_that_is_present_wins) {
  check({R"({"reasoning_effort": "default", "reasoning": {"effort": "low"}})", true, 50});
  check({R"({"reasoning_effort": "max", "reasoning": {"effort": "low"}})", true, 100});
  check({R"({"chat_template_kwargs": {"reasoning_effort": 7}, "reasoning_effort": "max"})", true, 7});
  check({R"({"reasoning_effort": "42"})", true, 42});
  check({R"({"reasoning_effort": 1})", true, 1});
  check({R"({"reasoning_effort": 100})", true, 100});
  check({R"({"reasoning_effort": 50.0})", true, 50});
  check({R"({"reasoning_effort": "minimal"})", true, 25});
}

BOOST_AUTO_TEST_CASE(an_effort_that_nobody_knows_is_refused_with_the_accepted_ones) {
  for (const char* body :
       {R"({"reasoning_effort": 0})", R"({"reasoning_effort": 101})", R"({"reasoning_effort": true})",
        R"({"reasoning_effort": 7.5})", R"({"reasoning_effort": "7.5"})", R"({"reasoning_effort": ""})",
        R"({"reasoning_effort": "ultra"})", R"({"reasoning_effort": []})",
        R"({"reasoning_effort": "max", "reasoning": {"effort": "ultra"}})"}) {
    check_refused(body, "reasoning_effort");
  }
  const auto refused = read_thinking(json(R"({"reasoning_effort": "ultra"})"), {});
  BOOST_TEST(
      refused.error().message ==
      "reasoning_effort must be one of none, minimal, low, medium, high, xhigh, max or an integer from 1 to 100");
}

BOOST_AUTO_TEST_CASE(switches_of_another_type_are_refused) {
  check_refused(R"({"chat_template_kwargs": []})", "chat_template_kwargs");
  check_refused(R"({"chat_template_kwargs": {"thinking": "yes"}})", "chat_template_kwargs");
  check_refused(R"({"chat_template_kwargs": {"thinking_mode": "loud"}})", "chat_template_kwargs");
  check_refused(R"({"thinking": true})", "thinking");
  check_refused(R"({"thinking": {"type": "sometimes"}})", "thinking");
  check_refused(R"({"enable_thinking": 1})", "enable_thinking");
  check_refused(R"({"reasoning": {"enabled": "no"}})", "reasoning");
}

BOOST_AUTO_TEST_CASE(a_budget_is_an_integer_of_at_least_zero) {
  BOOST_TEST(!read_thinking(json("{}"), {})->token_budget);
  BOOST_TEST(*read_thinking(json(R"({"thinking_token_budget": 0})"), {})->token_budget == 0u);
  BOOST_TEST(*read_thinking(json(R"({"chat_template_kwargs": {"thinking_token_budget": 9}})"), {})->token_budget == 9u);
  check_refused(R"({"thinking_token_budget": -1})", "thinking_token_budget");
  check_refused(R"({"thinking_token_budget": "5"})", "thinking_token_budget");
  check_refused(R"({"thinking_token_budget": 1.5})", "thinking_token_budget");
}

BOOST_AUTO_TEST_CASE(words_and_default_are_configuration) {
  const ReasoningConfig config{false, 60, {{"low", 25}, {"high", 50}}};
  check({R"({})", false, 60}, config);
  check({R"({"reasoning_effort": "high"})", false, 50}, config);
  BOOST_TEST(read_thinking(json(R"({"reasoning_effort": "max"})"), config).has_error());
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace tandem::net::text::test
