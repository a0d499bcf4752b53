// Where the time of a step goes: the arithmetic, and what the scheduler tells its observer and the board.
#include "actors/step_trace.hpp"

#include <numeric>

#include "tests/actors/simulation.hpp"

namespace gpu = tandem::gpu;
using namespace tandem::actors;
using namespace tandem::actors::simulation;
using namespace std::chrono_literals;

namespace {

using Time = StepTimer::Time;

struct Answer {
  StepTimer::Duration computed;
  Time ended;
};

// A step that is planned in 2 us, away for 100 us and delivered in 5 us.
StepTrace trace_of(const std::vector<Answer>& answers) {
  StepTimer timer;
  timer.begin(Time{10us});
  timer.sent(Time{12us});
  for (std::size_t rank = 0; rank < answers.size(); ++rank)
    timer.answered(rank, answers[rank].computed, answers[rank].ended);
  timer.collected(Time{112us});
  return timer.finish(Time{117us});
}

}  // namespace

BOOST_AUTO_TEST_SUITE(step_trace)

BOOST_AUTO_TEST_CASE(the_parts_follow_one_another_and_add_up) {
  const StepTrace trace = trace_of({{80us, Time{102us}}, {80us, Time{102us}}});
  BOOST_TEST((trace.begun == Time{10us}));
  BOOST_TEST((trace.of(StepPart::plan) == 2us));
  BOOST_TEST((trace.of(StepPart::dispatch) == 10us));
  BOOST_TEST((trace.of(StepPart::compute) == 80us));
  BOOST_TEST((trace.of(StepPart::collect) == 10us));
  BOOST_TEST((trace.of(StepPart::deliver) == 5us));
  BOOST_TEST((trace.total() == 107us));
  BOOST_TEST((trace.outside() == 27us));
}

BOOST_AUTO_TEST_CASE(a_rank_that_waits_for_one_that_was_woken_later_does_not_compute) {
  const StepTrace trace = trace_of({{95us, Time{108us}}, {60us, Time{108us}}});
  BOOST_TEST((trace.of(StepPart::compute) == 60us));
  BOOST_TEST((trace.of(StepPart::dispatch) == 36us));
}

BOOST_AUTO_TEST_CASE(the_clock_of_another_machine_changes_nothing) {
  const StepTrace here = trace_of({{80us, Time{102us}}, {80us, Time{102us}}});
  for (const Time elsewhere : {Time{}, Time{24h}}) {
    const StepTrace trace = trace_of({{80us, Time{102us}}, {80us, elsewhere}});
    BOOST_TEST((trace.parts == here.parts));
  }
}

BOOST_AUTO_TEST_CASE(whatever_ranks_report_no_part_is_negative_and_the_sum_holds) {
  for (const auto computed : {-5us, 0us, 99us, 100us, 101us, 1'000'000us})
    for (const Time ended : {Time{}, Time{12us}, Time{112us}, Time{1h}}) {
      const StepTrace trace = trace_of({{computed, ended}});
      BOOST_TEST((trace.total() == 107us));
      for (const auto part : trace.parts) BOOST_TEST((part >= 0us));
    }
}

BOOST_AUTO_TEST_CASE(every_step_is_observed_once_with_the_plan_that_ran) {
  Node node;
  std::vector<std::uint64_t> steps;
  std::size_t decoded = 0;
  node.on_step = [&](const StepTrace&, const gpu::StepPlan& plan) {
    steps.push_back(plan.step);
    decoded += plan.decode.size();
  };
  node.start();
  node.ranks_up();
  auto [id, record] = node.submit(5, 7);
  node.run();
  BOOST_REQUIRE(record->tokens.size() == 7U);
  std::vector<std::uint64_t> ran;
  for (const auto& plan : node.scripts[0].plans) ran.push_back(plan.step);
  BOOST_TEST(steps == ran, boost::test_tools::per_element());
  BOOST_TEST(decoded == 6U);  // the first token comes from the prompt
}

BOOST_AUTO_TEST_CASE(the_board_adds_up_what_steps_took) {
  Node node;
  StepTimer::Duration total{};
  node.on_step = [&](const StepTrace& trace, const gpu::StepPlan&) { total += trace.total(); };
  node.scripts[0].takes = node.scripts[1].takes = 0.01;
  node.start();
  node.ranks_up();
  auto [id, record] = node.submit(5, 3);
  // The clock moves between the messages of a step: some of it counts as compute, the rest does not.
  while (node.coordinator.try_run_once()) node.coordinator.clock().advance_time(10ms);
  const auto seconds = node.board.read().step_seconds;
  BOOST_TEST(std::accumulate(seconds.begin(), seconds.end(), 0.0) == std::chrono::duration<double>(total).count(),
             boost::test_tools::tolerance(1e-9));
  BOOST_TEST(seconds[static_cast<std::size_t>(StepPart::compute)] ==
                 0.01 * static_cast<double>(node.board.read().counters.steps),
             boost::test_tools::tolerance(1e-9));
}

BOOST_AUTO_TEST_SUITE_END()
