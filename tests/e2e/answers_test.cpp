// The served tiny model answers over HTTP what it was trained to answer, however it is asked.
#include <boost/test/unit_test.hpp>

#include "tests/e2e/chat_client.hpp"
#include "tests/e2e/tandem_process.hpp"

using namespace tandem::test;
namespace json = boost::json;

namespace {

TandemServer& two_ranks() {
  static TandemServer server{tiny_model(), {"--ranks", "2"}};
  return server;
}

constexpr const char* product = "What is 17*19? Reply with the integer only.";

}  // namespace

BOOST_AUTO_TEST_SUITE(answers)

BOOST_AUTO_TEST_CASE(the_product_is_323_whole_and_streamed_with_and_without_thinking) {
  const auto port = two_ranks().port();
  for (const bool is_thinking : {false, true})
    for (const bool is_stream : {false, true}) {
      BOOST_TEST_CONTEXT("thinking " << is_thinking << " stream " << is_stream) {
        const auto answer = ask(port, chat_body(product, is_thinking, {{"stream", is_stream}, {"max_tokens", 1000}}));
        BOOST_TEST(answer.status == 200);
        BOOST_TEST(answer.content == "323");
        BOOST_TEST(answer.finish_reason == "stop");
        BOOST_TEST(answer.reasoning.empty() == !is_thinking);
        BOOST_TEST(answer.is_done == is_stream);
      }
    }
}

BOOST_AUTO_TEST_CASE(a_stream_reports_usage_in_its_last_chunk_when_asked) {
  const auto answer = ask(two_ranks().port(),
                          chat_body(product, false, {{"stream", true}, {"stream_options", {{"include_usage", true}}}}));
  BOOST_TEST(answer.prompt_tokens > 0);
  BOOST_TEST(answer.completion_tokens >= 2);
}

BOOST_AUTO_TEST_CASE(max_tokens_cuts_and_says_length) {
  const auto answer = ask(two_ranks().port(), chat_body("Tell me a story.", false, {{"max_tokens", 3}}));
  BOOST_TEST(answer.finish_reason == "length");
  BOOST_TEST(answer.completion_tokens == 3);
}

BOOST_AUTO_TEST_CASE(the_same_seed_draws_the_same_text_and_another_seed_may_not) {
  const auto body = [](int seed) {
    return chat_body("Tell me a story.", false, {{"temperature", 1.5}, {"seed", seed}, {"max_tokens", 60}});
  };
  const auto port = two_ranks().port();
  const auto first = ask(port, body(1)), again = ask(port, body(1)), other = ask(port, body(2));
  BOOST_TEST(first.content == again.content);
  BOOST_TEST(first.content != other.content);
}

BOOST_AUTO_TEST_CASE(a_prompt_beyond_the_context_is_refused_with_the_limit_named) {
  std::string text;
  for (int i = 0; i < 9000; ++i) text += "word ";
  const auto answer = ask(two_ranks().port(), chat_body(text));
  BOOST_TEST(answer.status == 400);
  BOOST_TEST(answer.error.find("context_length_exceeded") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(nothing_runs_or_waits_after_all_answers) {
  BOOST_TEST(becomes_idle(two_ranks().port()));
}

BOOST_AUTO_TEST_SUITE_END()
