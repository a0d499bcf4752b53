// Ranks that are lost: for longer than requests wait, or again and again.
#include "tests/actors/simulation.hpp"

using namespace tandem::actors;
using namespace tandem::actors::simulation;

BOOST_AUTO_TEST_SUITE(recovery)

BOOST_AUTO_TEST_CASE(past_the_recovery_window_requests_end_with_rank_lost) {
  Node node;
  node.scripts[0].fail_at_step = 2;
  node.start();
  node.ranks_up();
  auto [id, record] = node.submit(5, 6);
  node.run();
  node.advance(node.options.recovery_window - std::chrono::seconds(1));
  BOOST_TEST(record->ends() == 0U);
  node.advance(std::chrono::seconds(2));
  BOOST_TEST((record->finish.reason == FinishReason::error));
  BOOST_TEST(record->finish.error_code == "rank_lost");
  auto [late_id, late] = node.submit(5, 6);
  node.run();
  BOOST_TEST(late->rejected == 1U);
  BOOST_TEST((late->rejection.reason == RejectReason::not_ready));
  node.scripts[0].fail_at_step = -1;
  node.ranks_up();
  auto [next_id, next] = node.submit(5, 6);
  node.run();
  BOOST_TEST((next->finish.reason == FinishReason::length));
}

BOOST_AUTO_TEST_CASE(a_request_that_takes_its_ranks_along_three_times_is_given_up) {
  Node node;
  node.scripts[0].fail_at_step = 1;
  node.start();
  node.ranks_up();
  auto [id, record] = node.submit(5, 6);
  node.run();
  node.ranks_up();
  node.run();
  BOOST_TEST(record->ends() == 0U);
  node.ranks_up();
  node.run();
  BOOST_TEST((record->finish.reason == FinishReason::error));
  BOOST_TEST(record->finish.error_code == "internal_error");
  node.scripts[0].fail_at_step = -1;
  node.ranks_up();
  auto [next_id, next] = node.submit(5, 6);
  node.run();
  BOOST_TEST((next->finish.reason == FinishReason::length));
}

BOOST_AUTO_TEST_CASE(losses_between_which_a_request_gains_tokens_do_not_end_it) {
  Node node;
  node.speculation.drafts = 0;
  node.scripts[0].fail_at_step = 3;
  node.start();
  node.ranks_up();
  auto [id, record] = node.submit(5, 20);
  node.run();
  for (int loss = 1; loss < 8; ++loss) {
    node.ranks_up();
    node.run();
  }
  BOOST_TEST(record->ends() == 0U);
  node.scripts[0].fail_at_step = -1;
  node.ranks_up();
  node.run();
  BOOST_TEST((record->finish.reason == FinishReason::length));
  BOOST_TEST(record->tokens == expected_tokens(5, 20), boost::test_tools::per_element());
}

BOOST_AUTO_TEST_SUITE_END()
