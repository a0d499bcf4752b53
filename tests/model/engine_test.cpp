// The engine through its plans: the text does not depend on drafts, batch, chunks, ranks or a replay.
#include <algorithm>
#include <boost/test/unit_test.hpp>

#include "tests/model/engine_fixture.hpp"
#include "tests/model/golden_fixture.hpp"
#include "tests/model/ranks.hpp"

namespace tandem::gpu::test {
namespace {

EngineDriver& random_model() {
  static EngineDriver driver(golden_checkpoint());
  return driver;
}

Request request_for(const std::string& prompt, float temperature = 0) {
  Request request;
  request.prompt = tokens_of(prompt);
  request.sampling.temperature = temperature;
  request.sampling.seed = 42;
  return request;
}

// A prompt that the trained model continues predictably: any ids of its vocabulary, repeated.
Request repeating_request(float temperature) {
  Request request;
  for (int i = 0; i < 40; ++i) request.prompt.push_back(100 + i % 8);
  request.sampling.temperature = temperature;
  request.sampling.seed = 7;
  request.generate = 48;
  return request;
}

StepPlan opens(SequenceId id, std::uint32_t max_tokens_total) {
  SequenceOpen open;
  open.id = id;
  open.max_tokens_total = max_tokens_total;
  StepPlan plan;
  plan.open.push_back(open);
  return plan;
}

PrefillWork chunk(SequenceId id, std::uint32_t start, std::vector<TokenId> tokens) {
  PrefillWork work;
  work.id = id;
  work.start = start;
  work.tokens = std::move(tokens);
  return work;
}

StepPlan closes(std::vector<SequenceId> ids) {
  StepPlan plan;
  plan.close = std::move(ids);
  return plan;
}

StepPlan prefills(std::vector<PrefillWork> work) {
  StepPlan plan;
  plan.prefill = std::move(work);
  return plan;
}

StepPlan decodes(DecodeWork work) {
  StepPlan plan;
  plan.decode.push_back(work);
  return plan;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(engine)

BOOST_AUTO_TEST_CASE(the_text_with_drafts_is_the_text_without) {
  for (const float temperature : {0.0F, 1.0F}) {
    Request request = request_for("p97", temperature);
    const auto plain = random_model().run_one(request);
    BOOST_TEST(plain.drafted == 0U);
    for (const std::uint32_t drafts : {1U, 3U, 5U}) {
      request.drafts = drafts;
      const auto reply = random_model().run_one(request);
      BOOST_TEST(reply.ids() == plain.ids(), boost::test_tools::per_element());
      BOOST_TEST(reply.drafted > 0U);
    }
  }
}

BOOST_AUTO_TEST_CASE(a_trained_draft_network_saves_steps_and_keeps_the_text) {
  EngineDriver driver(trained_checkpoint());
  for (const float temperature : {0.0F, 0.8F}) {
    Request request = repeating_request(temperature);
    const auto plain = driver.run_one(request);
    request.drafts = 5;
    const auto reply = driver.run_one(request);
    BOOST_TEST(reply.ids() == plain.ids(), boost::test_tools::per_element());
    BOOST_TEST_MESSAGE("temperature " << temperature << ": accepted " << reply.accepted << " of " << reply.drafted
                                      << ", " << reply.steps << " steps instead of " << plain.steps);
    if (temperature == 0) BOOST_TEST(reply.steps < plain.steps);
  }
}

BOOST_AUTO_TEST_CASE(the_text_does_not_depend_on_batch_and_chunks) {
  std::vector<Request> requests{request_for("p97", 1), request_for("p17"), request_for("p200", 0.7F)};
  std::vector<std::vector<TokenId>> alone;
  for (const Request& request : requests) alone.push_back(random_model().run_one(request).ids());
  requests[0].chunk = 5;
  requests[0].drafts = 3;
  requests[1].chunk = 1;
  requests[2].chunk = 33;
  requests[2].drafts = 5;
  const auto together = random_model().run(requests);
  for (std::size_t i = 0; i < requests.size(); ++i)
    BOOST_TEST(together[i].ids() == alone[i], boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(skipping_upper_layers_of_a_known_prompt_changes_no_token) {
  Request request = request_for("p200", 1);
  request.drafts = 2;
  const auto shortened = random_model().run_one(request);
  request.tell_prompt_length = false;
  BOOST_TEST(random_model().run_one(request).ids() == shortened.ids(), boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(a_replayed_sequence_continues_where_it_stopped) {
  Request request = request_for("p41", 1);
  request.sampling.presence_penalty = 0.5F;
  request.sampling.repetition_penalty = 1.2F;
  request.drafts = 3;
  const auto whole = random_model().run_one(request).ids();
  request.replayed.assign(whole.begin(), whole.begin() + 13);
  request.prompt.insert(request.prompt.end(), request.replayed.begin(), request.replayed.end());
  request.generate -= 13;
  const auto rest = random_model().run_one(request).ids();
  BOOST_TEST(rest == std::vector<TokenId>(whole.begin() + 13, whole.end()), boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(the_text_is_the_same_on_one_and_two_ranks) {
  std::vector<Request> requests{request_for("p97", 1), request_for("p34")};
  requests[0].drafts = 3;
  const auto expected = random_model().run(requests);
  std::vector<std::vector<Reply>> replies(2);
  on_each_rank(2, [&](Communicator& member) {
    replies[static_cast<std::size_t>(member.rank())] = EngineDriver(golden_checkpoint(), member).run(requests);
  });
  for (const auto& reply : replies) {
    for (std::size_t i = 0; i < requests.size(); ++i)
      BOOST_TEST(reply[i].ids() == expected[i].ids(), boost::test_tools::per_element());
  }
}

BOOST_AUTO_TEST_CASE(ranks_with_different_plans_stop) {
  std::vector<ErrorCode> codes(2, ErrorCode::internal);
  on_each_rank(2, [&](Communicator& member) {
    EngineDriver driver(golden_checkpoint(), member);
    const auto result = driver.step(opens(static_cast<SequenceId>(member.rank() + 1), 10));
    if (!result) codes[static_cast<std::size_t>(member.rank())] = result.error().code;
  });
  for (const ErrorCode code : codes) BOOST_TEST((code == ErrorCode::mismatch));
}

BOOST_AUTO_TEST_CASE(the_thinking_budget_forces_the_end_token) {
  Request request = request_for("p17", 1);
  request.sampling.thinking_budget = 6;
  request.sampling.think_end_id = 250;
  request.sampling.forbidden = {250};
  const auto plain = random_model().run_one(request).ids();
  BOOST_TEST(plain[6] == 250);
  BOOST_TEST(std::count(plain.begin(), plain.end(), 250) == 1);
  request.drafts = 4;
  BOOST_TEST(random_model().run_one(request).ids() == plain, boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(logprobs_are_those_of_the_models_own_logits) {
  Request request = request_for("p17");
  request.sampling.top_logprobs = 3;
  request.generate = 4;
  for (const SampledToken& token : random_model().run_one(request).tokens) {
    BOOST_REQUIRE_EQUAL(token.top.size(), 3U);
    BOOST_TEST(token.top[0].id == token.id);
    BOOST_TEST(token.top[0].logprob == token.logprob);
    BOOST_TEST(token.top[0].logprob >= token.top[1].logprob);
    BOOST_TEST(token.logprob <= 0);
  }
}

BOOST_AUTO_TEST_CASE(a_full_sequence_emits_nothing_more_and_harms_no_other) {
  EngineDriver driver(golden_checkpoint(), 1);
  StepPlan plan = opens(5, 4);
  plan.prefill.push_back(chunk(5, 0, {1, 2, 3}));
  plan.prefill.back().sample = true;
  plan.prefill.back().next_drafts = 5;
  auto result = driver.step(plan);
  BOOST_REQUIRE(result.has_value());
  BOOST_TEST(result->lanes.front().emitted.size() == 1U);
  const StepPlan decode = decodes({5, 5, 5});
  result = driver.step(decode);
  BOOST_REQUIRE(result.has_value());
  BOOST_TEST(result->lanes.front().length == 4U);
  BOOST_TEST(result->lanes.front().drafted == 0U);  // no room for a draft
  result = driver.step(decode);
  BOOST_REQUIRE(result.has_value());
  BOOST_TEST(result->lanes.front().emitted.empty());
  BOOST_TEST(result->lanes.front().length == 4U);
}

BOOST_AUTO_TEST_CASE(plans_that_break_the_contract_are_refused) {
  const auto refused = [](const char* what, const StepPlan& plan) {
    EngineDriver driver(golden_checkpoint(), 2);
    StepPlan open = opens(1, 100);
    open.prefill.push_back(chunk(1, 0, {1, 2}));
    BOOST_REQUIRE(driver.step(open).has_value());
    const auto result = driver.step(plan);
    BOOST_REQUIRE_MESSAGE(!result.has_value(), what);
    BOOST_TEST((result.error().code == ErrorCode::invalid_argument), what << ": " << result.error().message());
    BOOST_TEST((driver.step({}).error().code == ErrorCode::unavailable), what);
  };
  refused("unknown id", closes({9}));
  refused("closed twice", closes({1, 1}));
  refused("opened while open", opens(1, 5));
  refused("no tokens in total", opens(2, 0));
  refused("wrong start", prefills({chunk(1, 1, {3})}));
  refused("empty chunk", prefills({chunk(1, 2, {})}));
  refused("token outside the vocabulary", prefills({chunk(1, 2, {256})}));
  refused("too many rows", prefills({chunk(1, 2, std::vector<TokenId>(65, 3))}));
  refused("decode before sampling", decodes({1, 0, 0}));
  refused("too many drafts", decodes({1, 6, 0}));
  refused("two pieces of work", prefills({chunk(1, 2, {3}), chunk(1, 3, {4})}));
  StepPlan used_after_closing = closes({1});
  used_after_closing.prefill.push_back(chunk(1, 2, {3}));
  refused("work after closing", used_after_closing);
}

BOOST_AUTO_TEST_CASE(every_field_of_a_plan_enters_its_hash) {
  StepPlan plan = opens(1, 5);
  plan.prefill.push_back(chunk(1, 0, {1, 2}));
  const std::uint64_t hash = plan.hash();
  StepPlan other = plan;
  BOOST_TEST(other.hash() == hash);
  other.open[0].sampling.top_p = 0.5F;
  BOOST_TEST(other.hash() != hash);
  other = plan;
  other.prefill[0].tokens = {1};
  other.decode.push_back({2, 0, 0});
  BOOST_TEST(other.hash() != hash);
  other = plan;
  other.prefill[0].sample = true;
  BOOST_TEST(other.hash() != hash);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace tandem::gpu::test
