// Steps that are sent while the one before them runs: when that is done, what it must not change, and what it costs.
#include <functional>

#include "tests/actors/simulation.hpp"

namespace gpu = tandem::gpu;
using namespace tandem::actors;
using namespace tandem::actors::simulation;
using namespace std::chrono_literals;

BOOST_AUTO_TEST_SUITE(run_ahead)

namespace {

// How many plans a rank has got when it stays silent over one step.
std::size_t plans_sent(int silent_at_step, bool runs_ahead) {
  Node node;
  node.options.run_ahead = runs_ahead;
  node.scripts[0].silent_at_step = silent_at_step;
  node.start();
  node.ranks_up();
  node.submit(5, 30);
  node.run();
  return node.scripts[0].plans.size();
}

// Submits a prompt whose answer ends by a stop id, which is its `count`-th token.
std::shared_ptr<Record> submit_stopping(Node& node, std::size_t count) {
  GenerationRequest request;
  request.prompt.assign(5, 5);
  request.max_tokens = 30;
  request.stop_ids = {expected_tokens(5, count).back()};
  return node.submit(std::move(request)).second;
}

std::size_t decoded_rows(const RankScript& script) {
  std::size_t rows = 0;
  for (const auto& plan : script.plans) rows += plan.decode.size();
  return rows;
}

}  // namespace

BOOST_AUTO_TEST_CASE(one_step_and_no_more_is_sent_behind_a_running_one) {
  BOOST_TEST(plans_sent(4, true) == 5U);
  BOOST_TEST(plans_sent(4, false) == 4U);
}

BOOST_AUTO_TEST_CASE(nothing_is_sent_behind_a_step_that_feeds_a_prompt) {
  BOOST_TEST(plans_sent(1, true) == 1U);
}

BOOST_AUTO_TEST_CASE(a_lane_that_ends_by_its_length_is_not_computed_in_vain) {
  for (const std::uint32_t length : {1U, 2U, 3U, 9U}) {
    Node node;
    node.start();
    node.ranks_up();
    auto [id, record] = node.submit(5, length);
    node.run();
    BOOST_TEST(record->tokens == expected_tokens(5, length), boost::test_tools::per_element());
    BOOST_TEST(decoded_rows(node.scripts[0]) == length - 1);
  }
}

BOOST_AUTO_TEST_CASE(a_lane_that_ends_by_a_stop_id_is_computed_at_most_once_more) {
  Node node;
  node.start();
  node.ranks_up();
  const auto record = submit_stopping(node, 7);
  node.run();
  BOOST_TEST(record->tokens == expected_tokens(5, 7), boost::test_tools::per_element());
  BOOST_TEST((record->finish.reason == FinishReason::stop));
  BOOST_TEST(decoded_rows(node.scripts[0]) <= 7U);
  BOOST_TEST(node.scripts[0].plans.back().close.size() == 1U);
}

BOOST_AUTO_TEST_CASE(whoever_joins_waits_for_no_more_than_what_was_sent) {
  Node node;
  node.start();
  node.ranks_up();
  auto [a, first] = node.submit(5, 60);
  while (first->tokens.size() < 5) BOOST_REQUIRE(node.coordinator.try_run_once());
  const std::uint64_t sent = node.scripts[0].plans.back().step;
  auto [b, second] = node.submit(7, 4, 6);
  node.run();
  const auto& plans = node.scripts[0].plans;
  const auto joined = std::find_if(plans.begin(), plans.end(), [id = b](const gpu::StepPlan& plan) {
    return std::any_of(plan.open.begin(), plan.open.end(), [id](const auto& open) { return open.id == id; });
  });
  BOOST_REQUIRE((joined != plans.end()));
  BOOST_TEST(joined->step <= sent + 3);
  BOOST_TEST(first->tokens == expected_tokens(5, 60), boost::test_tools::per_element());
  BOOST_TEST(second->tokens == expected_tokens(7, 4, 6), boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(ranks_that_are_lost_with_two_steps_under_way_change_no_text) {
  for (int fail_at = 2; fail_at <= 10; ++fail_at) {
    Node node;
    node.speculation = {3, 2};
    node.scripts[0].fail_at_step = node.scripts[1].fail_at_step = fail_at;
    node.start();
    node.ranks_up();
    auto [a, first] = node.submit(9, 25, 5);
    auto [b, second] = node.submit(4, 25, 6);
    node.run();
    node.scripts[0].fail_at_step = node.scripts[1].fail_at_step = -1;
    node.ranks_up();
    node.run();
    BOOST_TEST(first->tokens == expected_tokens(9, 25, 5), boost::test_tools::per_element());
    BOOST_TEST(second->tokens == expected_tokens(4, 25, 6), boost::test_tools::per_element());
    BOOST_TEST(node.board.read().running == 0U);
  }
}

namespace {

// Drains a node whose last request has ended by step 4 while step 5, sent ahead, stays without an answer. Returns
// whether the drain was answered before and after `what_happens`.
std::pair<bool, bool> drain_behind_a_silent_step(const std::function<void(Node&)>& what_happens) {
  Node node;
  node.scripts[0].silent_at_step = 5;
  node.start();
  node.ranks_up();
  const auto record = submit_stopping(node, 4);
  node.run();
  BOOST_TEST(record->ends() == 1U);
  caf::scoped_actor self{node.system};
  auto handle = self->request(node.scheduler, 60s, drain_atom::value, 8000U);
  node.run();
  const bool is_early = !self->mailbox().empty();
  what_happens(node);
  const bool is_answered = !self->mailbox().empty();
  if (is_answered) handle.receive([](drained_atom) {}, [](caf::error& error) { BOOST_ERROR(caf::to_string(error)); });
  return {is_early, is_answered};
}

}  // namespace

BOOST_AUTO_TEST_CASE(draining_waits_for_the_step_that_was_sent_ahead_until_its_deadline) {
  const auto [is_early, is_answered] = drain_behind_a_silent_step([](Node& node) { node.advance(9s); });
  BOOST_TEST(!is_early);
  BOOST_TEST(is_answered);
}

BOOST_AUTO_TEST_CASE(draining_ends_at_once_when_the_ranks_are_lost_behind_the_last_request) {
  const auto [is_early, is_answered] = drain_behind_a_silent_step([](Node& node) {
    caf::anon_send(node.scheduler, ranks_down_atom::value, std::string("lost"));
    node.run();
  });
  BOOST_TEST(!is_early);
  BOOST_TEST(is_answered);
}

BOOST_AUTO_TEST_CASE(a_step_sent_ahead_has_the_time_of_the_one_before_it_as_well) {
  Node node;
  node.scripts[0].silent_at_step = 4;
  node.start();
  node.ranks_up();
  node.submit(5, 30);
  node.run();
  node.advance(node.options.step_timeout + 1s);
  BOOST_TEST(node.board.read().counters.rank_losses == 0U);
  node.advance(node.options.step_timeout);
  BOOST_TEST(node.board.read().counters.rank_losses == 1U);
}

BOOST_AUTO_TEST_CASE(a_step_sent_ahead_begins_where_the_one_before_it_ended) {
  const auto at = [](std::chrono::microseconds time) { return StepTimer::Time{time}; };
  StepTimer first, second;
  first.begin(at(10us));
  first.sent(at(12us));
  second.begin(at(13us));
  second.sent(at(15us));
  first.answered(0, 80us, at(102us));
  first.collected(at(112us));
  const StepTrace before = first.finish(at(117us), &second);
  BOOST_TEST((before.total() == 92us));  // its collecting and delivering lie beside the second's compute
  BOOST_TEST((before.of(StepPart::compute) == 80us));
  second.answered(0, 85us, at(190us));
  second.collected(at(199us));
  const StepTrace after = second.finish(at(205us));
  BOOST_TEST((after.begun == at(102us)));
  BOOST_TEST((after.of(StepPart::plan) == 0us));
  BOOST_TEST((after.of(StepPart::dispatch) == 3us));
  BOOST_TEST((after.of(StepPart::compute) == 85us));
  BOOST_TEST((after.of(StepPart::collect) == 9us));
  BOOST_TEST((after.of(StepPart::deliver) == 6us));
}

BOOST_AUTO_TEST_CASE(a_step_that_is_planned_or_sent_late_begins_where_the_one_before_it_ends) {
  const auto at = [](std::chrono::microseconds time) { return StepTimer::Time{time}; };
  StepTimer first, second;
  first.begin(at(10us));
  first.sent(at(12us));
  first.answered(0, 80us, at(102us));
  second.begin(at(100us));
  second.sent(at(103us));
  first.collected(at(112us));
  StepTimer planned;
  planned.begin(at(115us));
  StepTimer again = first;
  BOOST_TEST((again.finish(at(117us), &planned).total() == 107us));
  planned.sent(at(119us));
  planned.collected(at(119us));
  BOOST_TEST((planned.finish(at(119us)).begun == at(117us)));
  const StepTrace before = first.finish(at(117us), &second);
  BOOST_TEST((before.total() == 93us));  // until the second was sent
  BOOST_TEST((before.of(StepPart::compute) == 80us));
  second.collected(at(190us));
  BOOST_TEST((second.finish(at(190us)).begun == at(103us)));
}

BOOST_AUTO_TEST_SUITE_END()
