// What ends a node, and who may be which rank: the supervisor without ranks.
#include "actors/supervisor.hpp"

#include "tests/actors/simulation.hpp"

using namespace tandem;
using namespace tandem::actors;
using namespace tandem::actors::simulation;
using namespace std::chrono_literals;

BOOST_AUTO_TEST_SUITE(supervisor)

namespace {

struct Supervised {
  SnapshotBoard board;
  DeterministicConfig config;
  caf::actor_system system{config};
  caf::scheduler::test_coordinator& coordinator = dynamic_cast<caf::scheduler::test_coordinator&>(system.scheduler());
  std::vector<std::pair<int, std::string>> ends;
  caf::actor supervisor;

  Supervised() {
    NodeOptions options;
    options.ranks = 3;
    options.transport = Transport::tcp;
    options.build_id = "build";
    options.config_hash = "hash";
    options.on_fatal = [this](int code, const std::string& reason) { ends.emplace_back(code, reason); };
    supervisor = spawn_supervisor(system, std::move(options), &board);
  }
  ~Supervised() {
    caf::anon_send_exit(supervisor, caf::exit_reason::kill);
    coordinator.run();
  }
  caf::actor spawn_idle() {
    return system.spawn([](caf::event_based_actor*) { return caf::behavior{[](tick_atom) {}}; });
  }
};

// A node that says hello as `rank` and keeps what it is told.
struct Greeter {
  static inline const char* name = "greeter";
  std::vector<std::string>* heard = nullptr;
};
caf::behavior greeter(caf::stateful_actor<Greeter>* self, caf::actor supervisor, std::vector<std::string>* heard) {
  return {[self, supervisor, heard](tick_atom, int rank) {
    self->request(supervisor, 600s, hello_atom::value, Hello{protocol_version, "build", "hash", "", rank},
                  caf::actor_cast<caf::actor>(self))
        .then([heard](const Assignment& assignment) { heard->push_back("refused: " + assignment.refusal); },
              [self, heard](caf::error& error) { heard->push_back(self->system().render(error)); });
  }};
}

}  // namespace

BOOST_AUTO_TEST_CASE(the_end_of_an_actor_that_nothing_replaces_is_the_nodes_end) {
  Supervised node;
  const caf::actor scheduler = node.spawn_idle(), other = node.spawn_idle();
  introduce_vital(node.supervisor, "scheduler", scheduler);
  node.coordinator.run();
  caf::anon_send_exit(other, caf::exit_reason::unhandled_exception);
  node.coordinator.run();
  BOOST_TEST(node.ends.empty());
  caf::anon_send_exit(scheduler, caf::exit_reason::unhandled_exception);
  node.coordinator.run();
  BOOST_REQUIRE(node.ends.size() == 1U);
  BOOST_TEST(node.ends.front().first == 1);
  BOOST_TEST(node.ends.front().second.find("scheduler") != std::string::npos, node.ends.front().second);
  BOOST_TEST((node.board.read().state == NodeState::failed));
}

BOOST_AUTO_TEST_CASE(an_actor_that_had_ended_before_it_was_introduced_counts_as_well) {
  Supervised node;
  const caf::actor decode = node.spawn_idle();
  caf::anon_send_exit(decode, caf::exit_reason::kill);
  node.coordinator.run();
  introduce_vital(node.supervisor, "decode", decode);
  node.coordinator.run();
  BOOST_TEST(node.ends.size() == 1U);
}

BOOST_AUTO_TEST_CASE(the_supervisors_own_end_is_the_nodes_end_and_is_named) {
  for (const auto reason : {caf::exit_reason::kill, caf::exit_reason::user_shutdown}) {
    Supervised node;
    node.coordinator.run();
    caf::anon_send_exit(node.supervisor, reason);
    node.coordinator.run();
    BOOST_REQUIRE(node.ends.size() == 1U);
    BOOST_TEST(node.ends.front().first == 1);
    const std::string& why = node.ends.front().second;
    BOOST_TEST(why.starts_with("the node-supervisor actor ended: "), why);
    BOOST_TEST(why.find(to_string(reason)) != std::string::npos, why);
    BOOST_TEST((node.board.read().state == NodeState::failed));
    BOOST_TEST(node.board.read().detail == why);
  }
}

BOOST_AUTO_TEST_CASE(the_scheduler_hears_of_the_supervisors_end) {
  Supervised node;
  std::vector<std::string> heard;
  const caf::actor scheduler = node.system.spawn([&heard](caf::event_based_actor*) {
    return caf::behavior{[&heard](ranks_down_atom, const std::string& reason) { heard.push_back(reason); }};
  });
  introduce_scheduler(node.supervisor, caf::actor_cast<scheduler_actor>(scheduler));
  node.coordinator.run();
  caf::anon_send_exit(node.supervisor, caf::exit_reason::kill);
  node.coordinator.run();
  BOOST_REQUIRE(heard.size() == 1U);
  BOOST_TEST(heard.front().starts_with("the node-supervisor actor ended: "), heard.front());
  caf::anon_send_exit(scheduler, caf::exit_reason::kill);
  node.coordinator.run();
}

BOOST_AUTO_TEST_CASE(an_error_as_a_message_ends_the_node_like_an_exit) {
  Supervised node;
  caf::anon_send(node.supervisor, caf::make_error(caf::sec::unexpected_message));
  node.coordinator.run();
  BOOST_REQUIRE(node.ends.size() == 1U);
  BOOST_TEST(node.ends.front().second.find("unexpected_message") != std::string::npos, node.ends.front().second);
}

BOOST_AUTO_TEST_CASE(an_ordered_stop_is_no_end_to_report) {
  Supervised node;
  node.coordinator.run();
  bool has_ended = false;
  node.supervisor->attach_functor([&](const caf::error&) { has_ended = true; });
  caf::anon_send(node.supervisor, drain_atom::value);
  node.coordinator.run();
  BOOST_TEST(has_ended);
  BOOST_TEST(node.ends.empty());
  BOOST_TEST((node.board.read().state == NodeState::stopped));
}

BOOST_AUTO_TEST_CASE(a_node_that_has_failed_already_keeps_its_first_reason) {
  Supervised node;
  const caf::actor scheduler = node.spawn_idle();
  introduce_vital(node.supervisor, "scheduler", scheduler);
  caf::anon_send_exit(scheduler, caf::exit_reason::kill);
  node.coordinator.run();
  caf::anon_send_exit(node.supervisor, caf::exit_reason::kill);
  node.coordinator.run();
  BOOST_REQUIRE(node.ends.size() == 1U);
  BOOST_TEST(node.ends.front().second.find("scheduler actor") != std::string::npos, node.ends.front().second);
  BOOST_TEST(node.board.read().detail == node.ends.front().second);
}

BOOST_AUTO_TEST_CASE(a_node_that_says_hello_again_is_heard_and_another_one_is_not) {
  Supervised node;
  std::vector<std::string> first_heard, second_heard;
  const caf::actor first = node.system.spawn(greeter, node.supervisor, &first_heard);
  const caf::actor second = node.system.spawn(greeter, node.supervisor, &second_heard);
  caf::anon_send(first, tick_atom::value, 1);
  node.coordinator.run();
  BOOST_TEST(first_heard.empty());  // it waits for the third rank
  caf::anon_send(first, tick_atom::value, 1);
  node.coordinator.run();
  BOOST_REQUIRE(first_heard.size() == 1U);
  BOOST_TEST(first_heard.front().find("later hello") != std::string::npos, first_heard.front());
  caf::anon_send(second, tick_atom::value, 1);
  node.coordinator.run();
  BOOST_REQUIRE(second_heard.size() == 1U);
  BOOST_TEST(second_heard.front().find("taken by another node") != std::string::npos, second_heard.front());
  for (const caf::actor& actor : {first, second}) caf::anon_send_exit(actor, caf::exit_reason::kill);
  node.coordinator.run();
}

BOOST_AUTO_TEST_CASE(a_rank_that_the_deployment_has_not_is_refused) {
  Supervised node;
  std::vector<std::string> heard;
  const caf::actor stranger = node.system.spawn(greeter, node.supervisor, &heard);
  for (const int rank : {0, 3, -1}) caf::anon_send(stranger, tick_atom::value, rank);
  node.coordinator.run();
  BOOST_TEST(heard.size() == 3U);
  for (const auto& answer : heard) BOOST_TEST(answer.starts_with("refused: rank "), answer);
  caf::anon_send_exit(stranger, caf::exit_reason::kill);
  node.coordinator.run();
}

BOOST_AUTO_TEST_SUITE_END()
