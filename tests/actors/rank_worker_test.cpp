// What a rank worker reports to its supervisor, without a node around it.
#include "actors/rank_worker.hpp"

#include <boost/test/unit_test.hpp>

#include "tests/actors/real_node.hpp"

using namespace tandem;
using namespace tandem::actors;
using namespace tandem::actors::real;

BOOST_AUTO_TEST_SUITE(rank_worker)

BOOST_AUTO_TEST_CASE(one_that_is_stopped_while_it_loads_is_a_lost_peer_to_the_others) {
  caf::actor_system_config config;
  caf::actor_system system{config};
  caf::scoped_actor supervisor{system};
  RankWorkerOptions options;
  options.run_id = "a run";
  options.engine = options_for(std::make_shared<Starting>(), 1).engine;
  options.connect = [] { return Result<std::unique_ptr<gpu::Communicator>>(gpu::make_solo_communicator()); };
  options.control = std::make_shared<RankControl>();
  options.control->stop = true;
  options.supervisor = caf::actor_cast<caf::actor>(supervisor);
  caf::anon_send(spawn_rank_worker(system, std::move(options)), start_atom::value);
  RankState last;
  bool is_late = false;
  while (last.state != NodeState::failed && !is_late) {
    supervisor->receive([&](rank_state_atom, const RankState& report, const caf::actor&) { last = report; },
                        caf::after(std::chrono::seconds(30)) >> [&] { is_late = true; });
  }
  BOOST_REQUIRE(!is_late);
  BOOST_TEST(last.exit_code == 12);
  BOOST_TEST(last.detail.find("loading was stopped") != std::string::npos, last.detail);
}

BOOST_AUTO_TEST_SUITE_END()
