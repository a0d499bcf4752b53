// A request whose actor dies: its client hears of it, and the others go on.
#include <new>

#include "tests/actors/simulation.hpp"

using namespace tandem::actors;
using namespace tandem::actors::simulation;

BOOST_AUTO_TEST_SUITE(request_end)

namespace {

// Breaks its promise: throws on an actor's thread.
struct ThrowingRecord : Record {
  bool on_tokens(std::vector<tandem::gpu::SampledToken>) override { throw std::runtime_error("no memory left"); }
};

GenerationRequest short_request() {
  GenerationRequest request;
  request.prompt.assign(5, 5);
  request.max_tokens = 6;
  return request;
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_request_actor_that_dies_tells_its_sink_and_leaves_the_scheduler) {
  Node node;
  node.start();
  node.ranks_up();
  auto record = std::make_shared<ThrowingRecord>();
  node.submit(short_request(), record);
  auto [other_id, other] = node.submit(5, 6);
  node.run();
  BOOST_TEST(record->ends() == 1U);
  BOOST_TEST((record->finish.reason == FinishReason::error));
  BOOST_TEST(record->finish.error_code == "internal_error");
  BOOST_TEST((other->finish.reason == FinishReason::length));
  const RuntimeSnapshot snapshot = node.board.read();
  BOOST_TEST(snapshot.running + snapshot.waiting == 0U);
  BOOST_TEST(snapshot.counters.finished_error == 1U);
}

BOOST_AUTO_TEST_CASE(a_sink_that_cannot_take_the_end_either_harms_nobody_else) {
  struct DeafRecord final : ThrowingRecord {
    void on_finished(const Finish&) override { throw std::bad_alloc(); }
  };
  Node node;
  node.start();
  node.ranks_up();
  node.submit(short_request(), std::make_shared<DeafRecord>());
  auto [other_id, other] = node.submit(5, 6);
  node.run();
  BOOST_TEST((other->finish.reason == FinishReason::length));
  const RuntimeSnapshot snapshot = node.board.read();
  BOOST_TEST(snapshot.running + snapshot.waiting == 0U);
}

BOOST_AUTO_TEST_CASE(a_request_actor_that_is_killed_in_the_queue_tells_its_sink_and_gives_up_its_place) {
  Node node;
  node.start();  // no ranks: nothing leaves the queue
  node.board.update([&](RuntimeSnapshot& s) { s.engine = node.info; });
  caf::anon_send(node.scheduler, ranks_up_atom::value, RankGroup{{}, node.info, "run"});
  caf::anon_send(node.scheduler, ranks_down_atom::value, std::string("lost"));
  node.run();
  auto record = std::make_shared<Record>();
  caf::scoped_actor parent{node.system};
  auto actor = spawn_request(parent.ptr(), node.scheduler,
                             {1, std::make_shared<const GenerationRequest>(short_request()), record}, &node.board);
  node.run();
  BOOST_TEST(record->accepted == 1U);
  BOOST_TEST(node.board.read().waiting == 1U);
  caf::anon_send_exit(actor, caf::exit_reason::kill);
  node.run();
  BOOST_TEST(record->finished == 1U);
  BOOST_TEST((record->finish.reason == FinishReason::error));
  BOOST_TEST(node.board.read().waiting == 0U);
}

BOOST_AUTO_TEST_SUITE_END()
