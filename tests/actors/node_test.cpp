// Whole nodes with real engines over the golden checkpoint, ranks as threads, through the front door.
#include <atomic>

#include "tests/actors/real_node.hpp"

using namespace tandem;
using namespace tandem::actors;
using namespace tandem::actors::real;

namespace {

std::vector<gpu::TokenId> generate(HeadNode& head, std::size_t prompt, std::uint32_t max_tokens,
                                   float temperature = 0) {
  auto sink = submit(head, prompt, max_tokens, temperature);
  BOOST_REQUIRE(sink->wait());
  return sink->tokens;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(node)

BOOST_AUTO_TEST_CASE(ranks_batches_and_drafts_do_not_change_the_text) {
  std::vector<std::vector<gpu::TokenId>> expected;
  {
    auto one = start_ready(1);
    for (std::size_t i = 0; i < 6; ++i) expected.push_back(generate(*one, 1 + i * 21, 20, i % 2 == 0 ? 0.0F : 1.0F));
    one->stop(std::chrono::seconds(1));
  }
  auto two = start_ready(2, {3, 4});
  std::vector<std::shared_ptr<WaitingSink>> sinks;
  for (std::size_t i = 0; i < 6; ++i) sinks.push_back(submit(*two, 1 + i * 21, 20, i % 2 == 0 ? 0.0F : 1.0F));
  for (std::size_t i = 0; i < 6; ++i) {
    BOOST_REQUIRE(sinks[i]->wait());
    BOOST_TEST(sinks[i]->tokens == expected[i], boost::test_tools::per_element());
  }
  two->stop(std::chrono::seconds(1));
}

BOOST_AUTO_TEST_CASE(an_opening_is_generated_as_asked_at_once_or_behind_the_reasoning) {
  const std::vector<gpu::TokenId> opening = {7, 8, 9, 10, 11, 12};
  constexpr gpu::TokenId think_end = 99;
  for (const bool thinks : {false, true}) {
    std::vector<std::vector<gpu::TokenId>> texts;
    for (const std::uint32_t drafts : {0U, 3U}) {
      auto head = start_ready(drafts == 0 ? 1 : 2, {drafts, 4});
      GenerationRequest request;
      request.prompt = {3, 40, 77};
      request.max_tokens = 24;
      request.sampling.temperature = 0;
      request.sampling.opening = opening;
      request.sampling.thinking_budget = thinks ? 5 : -1;
      request.sampling.think_end_id = thinks ? think_end : -1;
      auto sink = std::make_shared<WaitingSink>();
      head->front_door().submit(std::move(request), sink);
      BOOST_REQUIRE(sink->wait());
      texts.push_back(sink->tokens);
      head->stop(std::chrono::seconds(1));
    }
    BOOST_TEST(texts[0] == texts[1], boost::test_tools::per_element());
    const auto begin = thinks ? std::find(texts[0].begin(), texts[0].end(), think_end) + 1 : texts[0].begin();
    BOOST_REQUIRE(texts[0].end() - begin > 6);
    BOOST_TEST(std::vector<gpu::TokenId>(begin, begin + 6) == opening, boost::test_tools::per_element());
  }
}

BOOST_AUTO_TEST_CASE(a_missing_model_is_fatal_and_named) {
  auto starting = std::make_shared<Starting>();
  auto options = options_for(starting, 2);
  options.engine.model = "/nonexistent/model";
  auto head = start_head(std::move(options));
  BOOST_REQUIRE(head.has_value());
  auto outcome = starting->outcome.get_future();
  BOOST_REQUIRE((outcome.wait_for(patience) == std::future_status::ready));
  BOOST_TEST(outcome.get().find("/nonexistent/model") != std::string::npos);
  (*head)->stop(std::chrono::seconds(1));
}

BOOST_AUTO_TEST_CASE(a_device_that_is_not_there_is_fatal_with_its_own_exit_code) {
  for (const int ranks : {1, 2}) {
    auto starting = std::make_shared<Starting>();
    auto options = options_for(starting, ranks);
    options.engine.backend = "cuda";
    options.engine.devices.devices = {63};
    std::atomic<int> exit_code = 0;
    options.on_fatal = [&exit_code, starting](int code, const std::string& reason) {
      exit_code = code;
      starting->settle(reason);
    };
    auto head = start_head(std::move(options));
    BOOST_REQUIRE(head.has_value());
    auto outcome = starting->outcome.get_future();
    BOOST_REQUIRE((outcome.wait_for(patience) == std::future_status::ready));
    BOOST_TEST(outcome.get().find("CUDA device 63") != std::string::npos);
    BOOST_TEST(exit_code == 15);
    (*head)->stop(std::chrono::seconds(1));
  }
}

BOOST_AUTO_TEST_CASE(stopping_a_busy_node_ends_its_requests) {
  auto head = start_ready(2);
  auto sink = submit(*head, 10, 240);
  BOOST_REQUIRE(sink->wait_for_a_token());  // running, so that the drain's deadline is what ends it
  head->stop(std::chrono::milliseconds(50));
  BOOST_REQUIRE(sink->wait());
  BOOST_TEST((sink->finish.reason == FinishReason::error || sink->finish.reason == FinishReason::length));
}

BOOST_AUTO_TEST_CASE(every_actor_answers_inspect) {
  auto head = start_ready(1);
  std::promise<std::string> report;
  head->front_door().inspect(std::chrono::seconds(5), [&](std::string json) { report.set_value(std::move(json)); });
  const std::string json = report.get_future().get();
  for (const char* name : {"scheduler", "prefill", "decode", "memory-guard", "node-supervisor", "reception"})
    BOOST_TEST(json.find(std::string("\"") + name + "\"") != std::string::npos, json);
  head->stop(std::chrono::seconds(1));
}

BOOST_AUTO_TEST_SUITE_END()
