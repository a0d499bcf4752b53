// The end of the actor that watches all others, on a head and on a worker: told at once, and nothing waits for ever.
#include <caf/io/all.hpp>
#include <cstdlib>
#include <iostream>
#include <thread>

#include "actors/supervisor.hpp"
#include "tests/actors/real_node.hpp"
#include "tests/e2e/stray_exit.hpp"
#include "tests/e2e/tandem_process.hpp"

using namespace tandem;
using namespace tandem::actors;
using namespace tandem::actors::real;
using namespace std::chrono_literals;

BOOST_AUTO_TEST_SUITE(node_end)

namespace {

// Far below every deadline that a rank or a request would wait out by itself.
constexpr auto end_limit = test::is_sanitized ? 60s : 20s;

// What a node told of its end.
struct Ending {
  std::mutex mutex;
  std::condition_variable changed;
  std::vector<std::pair<int, std::string>> ends;
  auto teller() {
    return [this](int exit_code, const std::string& reason) {
      std::lock_guard lock{mutex};
      ends.emplace_back(exit_code, reason);
      changed.notify_all();
    };
  }
  // Returns exit code and reason; 0 if nothing was told in time.
  std::pair<int, std::string> wait() {
    std::unique_lock lock{mutex};
    changed.wait_for(lock, end_limit, [this] { return !ends.empty(); });
    return ends.empty() ? std::pair<int, std::string>{} : ends.front();
  }
};

// What hangs cannot be left: it ends the program, by its name. `act` runs on this thread, since CAF wants an actor
// system destroyed where it was made.
template <class Act>
void in_time(const char* what, Act act) {
  std::promise<void> done;
  std::jthread watchdog{[is_done = done.get_future(), what] {
    if (is_done.wait_for(end_limit) == std::future_status::ready) return;
    std::cerr << what << " hangs\n";
    std::_Exit(EXIT_FAILURE);  // an abort would be taken for a failed case by the test framework, on the wrong thread
  }};
  act();
  done.set_value();
}

template <class Holds>
bool wait_until(Holds holds) {
  const auto deadline = std::chrono::steady_clock::now() + end_limit;
  while (!holds())
    if (std::chrono::steady_clock::now() > deadline)
      return false;
    else
      std::this_thread::yield();
  return true;
}

// Keeps the actor that delivers its first tokens, and with it the request, until it is let go.
struct HeldSink : WaitingSink {
  std::promise<void> let_go;
  std::shared_future<void> go = let_go.get_future().share();
  bool on_tokens(std::vector<gpu::SampledToken> batch) override {
    const bool is_heard = WaitingSink::on_tokens(std::move(batch));
    go.wait_for(end_limit);
    return is_heard;
  }
};

std::shared_ptr<HeldSink> submit_held(HeadNode& head) {
  auto sink = std::make_shared<HeldSink>();
  GenerationRequest request;
  request.prompt = {3, 40, 77};
  request.max_tokens = 200;
  request.sampling.temperature = 0;
  head.front_door().submit(std::move(request), sink);
  return sink;
}

// A head and a worker of one deployment over TCP, both in this process.
struct Pair {
  std::uint16_t port = test::free_port_pair();
  std::shared_ptr<Starting> starting = std::make_shared<Starting>();
  Ending ending;
  std::unique_ptr<HeadNode> head;
  std::unique_ptr<WorkerProcess> worker;

  NodeOptions options() const {
    NodeOptions node = options_for(starting, 2);
    node.transport = Transport::tcp;
    node.rendezvous_port = port;
    node.scheduler.verdict_timeout = end_limit;  // a held sink is no late one
    return node;
  }
  std::uint16_t actors_port() const { return static_cast<std::uint16_t>(port + 1); }
  void start_the_head() {
    NodeOptions node = options();
    node.on_fatal = ending.teller();
    auto started = start_head(std::move(node));
    BOOST_REQUIRE(started.has_value());
    head = std::move(*started);
  }
  void start_both() {
    start_the_head();
    WorkerNodeOptions other;
    other.node = options();
    worker = std::move(*start_worker(std::move(other)));
    auto outcome = starting->outcome.get_future();
    BOOST_REQUIRE((outcome.wait_for(patience) == std::future_status::ready));
    BOOST_REQUIRE_EQUAL(outcome.get(), "ready");
  }
  ~Pair() {
    in_time("the end of a head", [this] { head.reset(); });
    in_time("the end of a worker", [this] { worker.reset(); });
  }
};

struct NetworkConfig : caf::actor_system_config {
  NetworkConfig() {
    add_message_types<caf::id_block::tandem>();
    load<caf::io::middleman>();
    set("middleman.workers", 0);
  }
};

}  // namespace

BOOST_AUTO_TEST_CASE(an_exception_in_the_supervisor_ends_the_node_in_its_own_words) {
  auto starting = std::make_shared<Starting>();
  Ending ending;
  auto options = options_for(starting, 2);
  options.on_ready = [](const gpu::EngineInfo&) { throw std::runtime_error("ready for nothing"); };
  options.on_fatal = ending.teller();
  auto head = start_head(std::move(options));
  BOOST_REQUIRE(head.has_value());
  const auto [exit_code, reason] = ending.wait();
  BOOST_TEST(exit_code == 1);
  BOOST_TEST(reason.find("node-supervisor") != std::string::npos, reason);
  BOOST_TEST(reason.find("ready for nothing") != std::string::npos, reason);
  BOOST_TEST(((*head)->front_door().snapshot().state == NodeState::failed));
  in_time("the stop", [&] { (*head)->stop(1s); });
  in_time("the end of its ranks", [&] { head->reset(); });
}

BOOST_AUTO_TEST_CASE(a_supervisor_that_is_killed_while_its_ranks_load_takes_them_along) {
  SnapshotBoard board;
  Ending ending;
  caf::actor_system_config config;
  config.add_message_types<caf::id_block::tandem>();
  auto system = std::make_unique<caf::actor_system>(config);
  auto options = options_for(std::make_shared<Starting>(), 2);
  options.on_fatal = ending.teller();
  caf::actor supervisor = spawn_supervisor(*system, std::move(options), &board);
  caf::anon_send(supervisor, start_atom::value);
  BOOST_TEST(wait_until([&] { return board.read().state == NodeState::loading; }));
  caf::anon_send_exit(supervisor, caf::exit_reason::kill);  // read right after (start)
  BOOST_TEST(ending.wait().first == 1);
  BOOST_TEST((board.read().state == NodeState::failed));
  supervisor = {};
  in_time("the end of the ranks", [&] { system.reset(); });
}

BOOST_AUTO_TEST_CASE(a_supervisor_that_is_killed_while_its_rank_waits_for_another_takes_it_along) {
  Pair nodes;
  nodes.start_the_head();
  NetworkConfig config;
  caf::actor_system system{config};
  auto supervisor = system.middleman().remote_actor("127.0.0.1", nodes.actors_port());
  BOOST_REQUIRE(supervisor);
  caf::scoped_actor idler{system};  // says hello as rank 1 and never joins
  std::string run_id;
  idler
      ->request(*supervisor, end_limit, hello_atom::value, Hello{protocol_version, "test", "test", "", 1},
                caf::actor_cast<caf::actor>(idler))
      .receive([&](const Assignment& assignment) { run_id = assignment.run_id; }, [](caf::error&) {});
  BOOST_TEST(!run_id.empty());
  BOOST_TEST(test::end_published(nodes.actors_port()));
  BOOST_TEST(nodes.ending.wait().first == 1);
  in_time("the stop", [&] { nodes.head->stop(1s); });
  in_time("the end of the rank", [&] { nodes.head.reset(); });
}

BOOST_AUTO_TEST_CASE(a_stream_hears_of_it_when_the_supervisor_is_killed) {
  Pair nodes;
  nodes.start_both();
  auto sink = submit_held(*nodes.head);
  BOOST_TEST(sink->wait_for_a_token());
  BOOST_TEST((nodes.head->front_door().snapshot().state == NodeState::ready));
  BOOST_TEST(test::end_published(nodes.actors_port()));
  BOOST_TEST(nodes.ending.wait().first == 1);
  BOOST_TEST((nodes.head->front_door().snapshot().state == NodeState::failed));
  sink->let_go.set_value();
  in_time("the stop", [&] { nodes.head->stop(2s); });
  BOOST_REQUIRE(sink->wait());
  BOOST_TEST((sink->finish.reason == FinishReason::error));
  BOOST_TEST((nodes.head->front_door().snapshot().state == NodeState::failed));
}

BOOST_AUTO_TEST_CASE(a_drain_ends_although_the_supervisor_is_killed_meanwhile) {
  Pair nodes;
  nodes.start_both();
  auto sink = submit_held(*nodes.head);
  BOOST_TEST(sink->wait_for_a_token());
  auto stopped = std::async(std::launch::async, [&] { nodes.head->stop(10s); });
  BOOST_TEST(wait_until([&] { return nodes.head->front_door().snapshot().state == NodeState::draining; }));
  BOOST_TEST(test::end_published(nodes.actors_port()));
  sink->let_go.set_value();
  BOOST_TEST((stopped.wait_for(end_limit) == std::future_status::ready));
  BOOST_REQUIRE(sink->wait());
  BOOST_TEST(sink->finish.error_code == "draining");
}

BOOST_AUTO_TEST_CASE(a_worker_node_that_is_killed_ends_its_process_and_its_rank) {
  for (const bool is_ordered : {false, true}) {
    NetworkConfig config;
    caf::actor_system system{config};
    caf::scoped_actor head{system};
    auto port = system.middleman().publish(caf::actor_cast<caf::actor>(head), 0, "127.0.0.1");
    BOOST_REQUIRE(port);
    Ending ending;
    WorkerNodeOptions options;
    options.node = options_for(std::make_shared<Starting>(), 2);
    options.node.rendezvous_port = static_cast<std::uint16_t>(*port - 1);
    options.node.on_fatal = ending.teller();
    auto worker = std::move(*start_worker(std::move(options)));
    caf::actor node, rank;
    const Assignment assignment{"", "run", "token", 2, "127.0.0.1", test::free_port_pair()};  // nobody is there
    head->receive(
        [&](hello_atom, const Hello&, const caf::actor& from) {
          node = from;
          return assignment;
        },
        caf::after(end_limit) >> [] {});
    head->receive([&](rank_state_atom, const RankState&, const caf::actor& from) { rank = from; },
                  caf::after(end_limit) >> [] {});
    BOOST_REQUIRE((node && rank));
    head->monitor(rank);
    if (is_ordered)
      in_time("the stop", [&] { worker->stop(); });
    else
      head->send_exit(node, caf::exit_reason::kill);
    bool has_ended = false;
    head->receive([&](const caf::down_msg&) { has_ended = true; }, caf::after(end_limit) >> [] {});
    BOOST_TEST(has_ended);
    if (!is_ordered) {
      const auto [exit_code, reason] = ending.wait();
      BOOST_TEST(exit_code == 1);
      BOOST_TEST(reason.starts_with("the worker-node actor ended: "), reason);
    }
    node = rank = {};
    in_time("the end of the worker", [&] { worker.reset(); });
    BOOST_TEST(ending.ends.size() == (is_ordered ? 0U : 1U));
  }
}

BOOST_AUTO_TEST_SUITE_END()
