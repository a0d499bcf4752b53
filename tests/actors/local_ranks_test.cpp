// Rank workers end with whoever owns them.
#include "actors/local_ranks.hpp"

#include "tests/actors/simulation.hpp"

using namespace tandem::actors;

BOOST_AUTO_TEST_SUITE(local_ranks)

namespace {

struct Workers {
  simulation::DeterministicConfig config;
  caf::actor_system system{config};
  caf::scheduler::test_coordinator& coordinator = dynamic_cast<caf::scheduler::test_coordinator&>(system.scheduler());
  std::vector<std::shared_ptr<RankControl>> controls;
  std::vector<caf::actor> actors;
  int ended = 0;

  explicit Workers(int count) {
    for (int i = 0; i < count; ++i) {
      controls.push_back(std::make_shared<RankControl>());
      actors.push_back(system.spawn([](caf::event_based_actor*) { return caf::behavior{[](start_atom) {}}; }));
      actors.back()->attach_functor([this](const caf::error&) { ++ended; });
    }
    coordinator.run();
  }
  ~Workers() {
    for (const caf::actor& actor : actors) caf::anon_send_exit(actor, caf::exit_reason::kill);
    coordinator.run();
  }
};

}  // namespace

BOOST_AUTO_TEST_CASE(workers_are_woken_and_told_to_end_when_their_owner_goes) {
  Workers workers{2};
  {
    LocalRanks ranks;
    for (std::size_t i = 0; i < 2; ++i) ranks.add(workers.actors[i], workers.controls[i]);
    workers.coordinator.run();
    BOOST_TEST(workers.ended == 0);
    BOOST_TEST(!workers.controls[0]->stop);
  }
  BOOST_TEST(workers.controls[0]->stop);
  BOOST_TEST(workers.controls[1]->stop);
  workers.coordinator.run();
  BOOST_TEST(workers.ended == 2);
}

BOOST_AUTO_TEST_CASE(a_worker_that_ended_is_none_of_them_any_more) {
  Workers workers{2};
  LocalRanks ranks;
  ranks.add(workers.actors[0], workers.controls[0]);
  BOOST_TEST(!ranks.erase(workers.actors[1].address()));
  BOOST_TEST(ranks.erase(workers.actors[0].address()));
  BOOST_TEST(ranks.empty());
  ranks.stop("none is left");
  BOOST_TEST(!workers.controls[0]->stop);
}

BOOST_AUTO_TEST_SUITE_END()
