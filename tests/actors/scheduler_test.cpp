// The scheduler with simulated ranks and clock: what clients hear whatever joins, leaves, fails or is cancelled around
// them.
#include "tests/actors/simulation.hpp"

#include <random>

namespace gpu = tandem::gpu;
using namespace tandem::actors;
using namespace tandem::actors::simulation;

BOOST_AUTO_TEST_SUITE(scheduler)

BOOST_AUTO_TEST_CASE(one_request_hears_its_tokens_and_one_end) {
  Node node;
  node.start();
  node.ranks_up();
  auto [id, record] = node.submit(5, 7);
  node.run();
  BOOST_TEST(record->accepted == 1U);
  BOOST_TEST(record->tokens == expected_tokens(5, 7), boost::test_tools::per_element());
  BOOST_TEST(record->ends() == 1U);
  BOOST_TEST((record->finish.reason == FinishReason::length));
  BOOST_TEST(record->finish.usage.prompt_tokens == 5U);
  BOOST_TEST(record->finish.usage.completion_tokens == 7U);
  BOOST_TEST(node.board.read().running == 0U);
  BOOST_TEST(node.board.read().kv_usage == 0.0);
}

BOOST_AUTO_TEST_CASE(a_prompt_of_one_token_and_one_generated_token_works) {
  Node node;
  node.start();
  node.ranks_up();
  auto [id, record] = node.submit(1, 1);
  node.run();
  BOOST_TEST(record->tokens == expected_tokens(1, 1), boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(a_prompt_that_fills_the_context_is_refused_and_one_less_runs) {
  Node node;
  node.start();
  node.ranks_up();
  auto [a, too_long] = node.submit(256, 0);
  auto [b, fits] = node.submit(255, 0);
  node.run();
  BOOST_TEST(too_long->rejected == 1U);
  BOOST_TEST((too_long->rejection.reason == RejectReason::prompt_too_long));
  BOOST_TEST(fits->tokens.size() == 1U);
  BOOST_TEST((fits->finish.reason == FinishReason::length));
}

BOOST_AUTO_TEST_CASE(bad_prompts_are_refused_by_name) {
  Node node;
  node.start();
  node.ranks_up();
  auto [a, empty] = node.submit(0, 5);
  auto [b, beyond] = node.submit(3, 5, 1000);
  auto [c, negative] = node.submit(3, 5, -1);
  node.run();
  for (const auto& record : {empty, beyond, negative}) {
    BOOST_TEST(record->rejected == 1U);
    BOOST_TEST((record->rejection.reason == RejectReason::invalid));
  }
}

BOOST_AUTO_TEST_CASE(requests_before_the_first_ready_are_told_to_come_back) {
  Node node;
  node.start();
  auto [id, record] = node.submit(3, 3);
  node.run();
  BOOST_TEST((record->rejection.reason == RejectReason::not_ready));
  BOOST_TEST(record->rejection.retry_after_s > 0U);
}

BOOST_AUTO_TEST_CASE(a_request_that_knows_no_limits_yet_is_refused_though_the_ranks_are_up) {
  Node node;
  node.start();
  node.ranks_up();
  node.run();
  node.board.update([](RuntimeSnapshot& s) { s.engine = {}; });  // as it was before the supervisor published it
  auto [id, record] = node.submit(3, 3);
  node.run();
  BOOST_TEST((record->rejection.reason == RejectReason::not_ready));
  BOOST_TEST(record->accepted == 0U);
}

BOOST_AUTO_TEST_CASE(an_answer_that_the_front_end_found_complete_counts_as_served) {
  Node node;
  node.start();
  node.ranks_up();
  auto [id, record] = node.submit(5, 200);
  while (record->tokens.size() < 3) BOOST_REQUIRE(node.coordinator.try_run_once());
  caf::anon_send(node.reception, complete_atom::value, id);
  node.run();
  BOOST_TEST((record->finish.reason == FinishReason::stop));
  BOOST_TEST(record->ends() == 1U);
  BOOST_TEST(record->tokens.size() <= 5U);
  const auto snapshot = node.board.read();
  BOOST_TEST(snapshot.counters.finished_stop == 1U);
  BOOST_TEST(snapshot.counters.aborted == 0U);
  BOOST_TEST(snapshot.inference_time.count == 1U);
  BOOST_TEST(snapshot.running == 0U);
}

BOOST_AUTO_TEST_CASE(a_stop_id_ends_a_request_and_is_its_last_token) {
  Node node;
  node.start();
  node.ranks_up();
  GenerationRequest request;
  request.prompt.assign(4, 5);
  request.max_tokens = 50;
  request.stop_ids = {next_token(5, 6)};
  auto [id, record] = node.submit(request);
  node.run();
  BOOST_TEST(record->tokens == expected_tokens(4, 3), boost::test_tools::per_element());
  BOOST_TEST((record->finish.reason == FinishReason::stop));
}

BOOST_AUTO_TEST_CASE(no_step_is_larger_than_its_row_budget_and_no_lane_is_skipped) {
  Node node;
  node.start();
  node.ranks_up();
  std::vector<std::shared_ptr<Record>> records;
  for (int i = 0; i < 9; ++i) records.push_back(node.submit(40 + static_cast<std::size_t>(i), 20, i).second);
  node.run();
  for (int i = 0; i < 9; ++i)
    BOOST_TEST(records[static_cast<std::size_t>(i)]->tokens == expected_tokens(40 + static_cast<std::size_t>(i), 20, i),
               boost::test_tools::per_element());
  BOOST_TEST(node.scripts[0].rows_seen_max <= 24U);
  BOOST_TEST(node.scripts[0].lanes_seen_max <= 4U);
  std::map<gpu::SequenceId, int> generated;  // by lanes that have begun
  for (const auto& plan : node.scripts[0].plans) {
    std::set<gpu::SequenceId> planned;
    for (const auto& work : plan.decode) planned.insert(work.id);
    for (const auto& [id, count] : generated) BOOST_TEST(planned.contains(id) == (count < 20));
    for (const auto id : planned) ++generated[id];
    for (const auto& work : plan.prefill)
      if (work.sample) generated[work.id] = 1;
  }
  BOOST_TEST(generated.size() == 9U);
}

BOOST_AUTO_TEST_CASE(both_ranks_get_the_same_plans_in_the_same_order) {
  Node node;
  node.start();
  node.ranks_up();
  for (int i = 0; i < 6; ++i) node.submit(10, 5, i);
  node.run();
  BOOST_REQUIRE(node.scripts[0].plans.size() == node.scripts[1].plans.size());
  for (std::size_t i = 0; i < node.scripts[0].plans.size(); ++i) {
    BOOST_TEST(node.scripts[0].plans[i].step == i + 1);
    BOOST_TEST(node.scripts[0].plans[i].hash() == node.scripts[1].plans[i].hash());
  }
}

BOOST_AUTO_TEST_CASE(a_cancelled_request_leaves_within_one_step) {
  Node node;
  node.start();
  node.ranks_up();
  auto [id, record] = node.submit(5, 200);
  while (record->tokens.size() < 3) BOOST_REQUIRE(node.coordinator.try_run_once());
  caf::anon_send(node.reception, cancel_atom::value, id);
  node.run();
  BOOST_TEST((record->finish.reason == FinishReason::cancelled));
  BOOST_TEST(record->ends() == 1U);
  BOOST_TEST(record->tokens.size() <= 5U);
  BOOST_TEST(node.scripts[0].plans.back().close.size() == 1U);
  BOOST_TEST(node.board.read().counters.aborted == 1U);
}

BOOST_AUTO_TEST_CASE(a_cancelled_prefill_frees_its_pages_before_the_next_plan) {
  Node node;
  node.info.pages_total = 16;  // room for exactly one request of 255 tokens
  node.start();
  node.ranks_up();
  auto [first, a] = node.submit(200, 50);
  auto [second, b] = node.submit(200, 10);
  for (int i = 0; i < 40; ++i) node.coordinator.try_run_once();
  caf::anon_send(node.reception, cancel_atom::value, first);
  node.run();
  BOOST_TEST((a->finish.reason == FinishReason::cancelled));
  BOOST_TEST(b->tokens == expected_tokens(200, 10), boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(a_sink_that_is_gone_ends_its_request) {
  Node node;
  node.start();
  node.ranks_up();
  auto [id, record] = node.submit(5, 200);
  record->is_listening = false;
  node.run();
  BOOST_TEST((record->finish.reason == FinishReason::cancelled));
  BOOST_TEST(record->tokens.size() == 1U);
}

BOOST_AUTO_TEST_CASE(a_full_queue_refuses_and_recovers) {
  Node node;
  node.options.queue_max = 2;
  node.info.lanes_max = 1;
  node.start();
  std::vector<std::shared_ptr<Record>> records;
  node.ranks_up();
  for (int i = 0; i < 10; ++i) records.push_back(node.submit(5, 5).second);
  node.run();
  std::size_t refused = 0, served = 0;
  for (const auto& record : records) {
    BOOST_TEST(record->ends() == 1U);
    if (record->rejected) BOOST_TEST((record->rejection.reason == RejectReason::queue_full));
    refused += record->rejected;
    served += record->finished;
  }
  BOOST_TEST(refused > 0U);
  BOOST_TEST(served >= 2U);
  auto [id, later] = node.submit(5, 5);
  node.run();
  BOOST_TEST(later->tokens.size() == 5U);
}

BOOST_AUTO_TEST_CASE(a_request_larger_than_the_pool_is_refused_at_once) {
  Node node;
  node.info.pages_total = 4;
  node.start();
  node.ranks_up();
  auto [id, record] = node.submit(60, 20);
  node.run();
  BOOST_TEST(record->rejected == 1U);
}

BOOST_AUTO_TEST_CASE(a_lost_rank_is_invisible_in_the_text) {
  for (int fail_at = 1; fail_at <= 12; ++fail_at) {
    Node node;
    node.scripts[1].fail_at_step = fail_at;
    node.start();
    node.ranks_up();
    auto [a, first] = node.submit(30, 12, 5);
    auto [b, second] = node.submit(9, 12, 6);
    node.run();
    node.scripts[1].fail_at_step = -1;
    node.ranks_up();
    node.run();
    BOOST_TEST(first->tokens == expected_tokens(30, 12, 5), boost::test_tools::per_element());
    BOOST_TEST(second->tokens == expected_tokens(9, 12, 6), boost::test_tools::per_element());
    BOOST_TEST(first->ends() == 1U);
  }
}

BOOST_AUTO_TEST_CASE(a_silent_rank_is_a_lost_rank_after_the_step_timeout) {
  Node node;
  node.scripts[0].silent_at_step = 2;
  node.start();
  node.ranks_up();
  auto [id, record] = node.submit(5, 6);
  node.run();
  BOOST_TEST(record->ends() == 0U);
  node.advance(node.options.step_timeout + std::chrono::seconds(1));
  BOOST_TEST(node.board.read().counters.rank_losses == 1U);
  BOOST_TEST(node.board.read().counters.recoveries == 0U);
  node.scripts[0].silent_at_step = -1;
  node.ranks_up();
  node.run();
  BOOST_TEST(node.board.read().counters.recoveries == 1U);
  BOOST_TEST(record->tokens == expected_tokens(5, 6), boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(draining_lets_running_requests_finish_and_refuses_new_ones) {
  Node node;
  node.start();
  node.ranks_up();
  auto [id, record] = node.submit(5, 30);
  for (int i = 0; i < 40; ++i) node.coordinator.try_run_once();
  caf::scoped_actor self{node.system};
  auto handle = self->request(node.scheduler, std::chrono::seconds(10), drain_atom::value, 8000U);
  node.run();
  auto [late_id, late] = node.submit(5, 5);
  node.run();
  bool is_drained = false;
  handle.receive([&](drained_atom) { is_drained = true; }, [](caf::error&) {});
  BOOST_TEST(is_drained);
  BOOST_TEST(record->tokens.size() == 30U);
  BOOST_TEST((late->rejection.reason == RejectReason::draining));
}

BOOST_AUTO_TEST_CASE(the_drain_deadline_ends_what_still_runs) {
  Node node;
  node.scripts[0].silent_at_step = 3;
  node.start();
  node.ranks_up();
  auto [id, record] = node.submit(5, 30);
  node.run();
  caf::scoped_actor self{node.system};
  auto handle = self->request(node.scheduler, std::chrono::seconds(60), drain_atom::value, 8000U);
  node.run();
  BOOST_TEST(record->ends() == 0U);
  node.advance(std::chrono::seconds(9));
  bool is_drained = false;
  handle.receive([&](drained_atom) { is_drained = true; }, [](caf::error&) {});
  BOOST_TEST(is_drained);
  BOOST_TEST(record->finish.error_code == "draining");
}

// Random arrivals, cancels, rank losses: every request ends exactly once, with a prefix of its own text, and nothing
// stays behind.
BOOST_AUTO_TEST_CASE(any_storm_ends_every_request_once_and_leaves_nothing) {
  for (std::uint32_t seed = 1; seed <= 30; ++seed) {
    BOOST_TEST_CONTEXT("seed " << seed) {
      std::mt19937 random{seed};
      Node node;
      node.speculation = {seed % 4, 3};
      node.options.run_ahead = seed % 5 != 0;
      node.start();
      node.ranks_up();
      struct Client {
        RequestId id;
        std::shared_ptr<Record> record;
        std::size_t prompt;
        std::uint32_t max;
        gpu::TokenId first;
      };
      std::vector<Client> clients;
      for (int event = 0; event < 60; ++event) {
        const auto dice = random() % 10;
        if (dice < 5) {
          Client client{0, nullptr, 1 + random() % 60, static_cast<std::uint32_t>(1 + random() % 40),
                        static_cast<gpu::TokenId>(random() % 90)};
          std::tie(client.id, client.record) = node.submit(client.prompt, client.max, client.first);
          clients.push_back(client);
        } else if (dice < 7 && !clients.empty()) {
          caf::anon_send(node.reception, cancel_atom::value, clients[random() % clients.size()].id);
        } else if (dice == 7) {
          caf::anon_send(node.scheduler, ranks_down_atom::value, std::string("storm"));
          node.ranks_up();
        }
        for (auto steps = random() % 80; steps > 0; --steps) node.coordinator.try_run_once();
      }
      node.run();
      for (const Client& client : clients) {
        BOOST_TEST(client.record->ends() == 1U);
        const auto text = expected_tokens(client.prompt, client.record->tokens.size(), client.first);
        BOOST_TEST(client.record->tokens == text, boost::test_tools::per_element());
        if (client.record->finished && client.record->finish.reason == FinishReason::length)
          BOOST_TEST(client.record->tokens.size() == client.max);
      }
      const auto snapshot = node.board.read();
      BOOST_TEST(snapshot.running == 0U);
      BOOST_TEST(snapshot.waiting == 0U);
      BOOST_TEST(snapshot.kv_usage == 0.0);
    }
  }
}

BOOST_AUTO_TEST_SUITE_END()
