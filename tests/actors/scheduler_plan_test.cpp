// What the scheduler's plans tell the engines beside the tokens: drafts to prepare and verify, lengths of prompts.
#include "tests/actors/simulation.hpp"

namespace gpu = tandem::gpu;
using namespace tandem::actors;
using namespace tandem::actors::simulation;

BOOST_AUTO_TEST_SUITE(scheduler_plan)

BOOST_AUTO_TEST_CASE(speculation_changes_the_steps_and_not_the_text) {
  Node node;
  node.speculation = {3, 2};
  node.start();
  node.ranks_up();
  auto [id, record] = node.submit(6, 41);
  node.run();
  BOOST_TEST(record->tokens == expected_tokens(6, 41), boost::test_tools::per_element());
  BOOST_TEST(record->finish.usage.accepted > 0U);
  BOOST_TEST(record->finish.usage.steps < 41U);
  BOOST_TEST(node.board.read().counters.draft_tokens > 0U);
}

BOOST_AUTO_TEST_CASE(the_first_decode_step_verifies_drafts_that_the_prefill_prepared) {
  Node node;
  node.speculation = {3, 2};
  node.start();
  node.ranks_up();
  node.submit(40, 9);
  node.run();
  const auto& plans = node.scripts[0].plans;
  std::size_t sampled_at = 0;
  for (std::size_t i = 0; i < plans.size(); ++i)
    for (const auto& work : plans[i].prefill) {
      BOOST_TEST(work.next_drafts == (work.sample ? 3U : 0U));
      if (work.sample) sampled_at = i;
    }
  BOOST_TEST(sampled_at > 0U);  // 40 rows do not fit one step
  BOOST_REQUIRE(plans.at(sampled_at + 1).decode.size() == 1U);
  BOOST_TEST(plans[sampled_at + 1].decode.front().drafts == 3U);
}

BOOST_AUTO_TEST_CASE(every_opened_sequence_names_the_whole_length_that_is_fed_before_it_samples) {
  Node node;
  node.start();
  node.ranks_up();
  node.scripts[0].fail_at_step = 6;
  auto [id, record] = node.submit(30, 12);
  node.run();
  const std::size_t generated = record->tokens.size();
  BOOST_REQUIRE(generated > 0U);
  node.scripts[0].fail_at_step = -1;
  node.ranks_up();
  node.run();
  std::vector<std::uint32_t> lengths;
  for (const auto& plan : node.scripts[0].plans)
    for (const auto& open : plan.open) lengths.push_back(open.prompt_tokens);
  const std::vector<std::uint32_t> expected = {30, static_cast<std::uint32_t>(30 + generated)};
  BOOST_TEST(lengths == expected, boost::test_tools::per_element());
}

namespace {

// One step of a lane: what was verified, and how many of those were accepted at most.
std::uint32_t step(DecodeLanes& lanes, RequestId id, std::uint32_t acceptable) {
  const auto plan = lanes.plan();
  gpu::StepResult result;
  for (const auto& work : plan.work) {
    gpu::LaneResult lane;
    lane.id = work.id;
    lane.drafted = work.drafts;
    lane.accepted = std::min(work.drafts, acceptable);
    result.lanes.push_back(lane);
  }
  lanes.commit(result);
  const auto own = std::find_if(plan.work.begin(), plan.work.end(), [id](const auto& work) { return work.id == id; });
  return own->drafts;
}

std::uint32_t verified(DecodeLanes& lanes, int steps, std::uint32_t acceptable) {
  std::uint32_t drafts = 0;
  for (int i = 0; i < steps; ++i) drafts += step(lanes, 1, acceptable);
  return drafts;
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_lane_whose_drafts_are_accepted_always_drafts) {
  DecodeLanes lanes{SpeculationPolicy{3, 8}};
  lanes.begin(1, 3);
  BOOST_TEST(verified(lanes, 100, 3) == 300U);
}

BOOST_AUTO_TEST_CASE(a_lane_whose_drafts_are_refused_seldom_drafts_until_they_are_accepted_again) {
  DecodeLanes lanes{SpeculationPolicy{3, 8}};
  lanes.begin(1, 3);
  verified(lanes, 20, 0);
  BOOST_TEST(verified(lanes, 180, 0) <= 3U * 22);  // two steps of eighteen
  verified(lanes, 40, 3);
  BOOST_TEST(verified(lanes, 100, 3) == 300U);
}

BOOST_AUTO_TEST_CASE(nobody_drafts_above_the_lanes_of_the_policy) {
  DecodeLanes lanes{SpeculationPolicy{3, 2}};
  for (RequestId id = 1; id <= 3; ++id) lanes.begin(id, 0);
  BOOST_TEST(verified(lanes, 10, 3) == 0U);
  lanes.drop(3);
  BOOST_TEST(verified(lanes, 10, 3) == 27U);  // all but the first, which finds nothing prepared
}

BOOST_AUTO_TEST_SUITE_END()
