// Finds the head, says hello, runs the assigned rank, and starts over when the generation ends.
#include "actors/worker_node.hpp"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <caf/io/all.hpp>
#include <utility>

#include "actors/last_words.hpp"
#include "actors/local_ranks.hpp"
#include "gpu/comm/tcp_communicator.hpp"

namespace tandem::actors {

namespace {

constexpr int exit_usage = 2;
constexpr int exit_peer_lost = 12;
constexpr auto hello_timeout =
    std::chrono::seconds(86'400);  // the head answers when its group is complete; its death ends the wait

struct WorkerState;
using Self = caf::stateful_actor<WorkerState>*;

struct WorkerState {
  static inline const char* name = "worker-node";
  Self self;
  WorkerNodeOptions options;
  caf::actor head;
  LocalRanks ranks;  // one at most
  std::string run_id;
  std::string last_reason;  // of the wait; logged when it changes
  bool is_stopping = false;
  bool is_retry_due = false;  // a tick is on its way
  // The one search for a head that counts: what an earlier one still hears (a hello to a head that is gone) is ignored.
  std::uint64_t search = 0;
  bool is_searching = false;  // connecting, or waiting for the answer to a hello
  std::chrono::steady_clock::time_point head_lost{};

  explicit WorkerState(Self actor) : self(actor) {}
  ~WorkerState();  // nobody watches this actor: its end, if it was not ordered, is the process's
};

void die(Self self, int exit_code, const std::string& reason) {
  if (self->state.is_stopping) return;
  self->state.is_stopping = true;
  if (self->state.options.node.on_fatal) self->state.options.node.on_fatal(exit_code, reason);
}

WorkerState::~WorkerState() {
  die(self, 1, describe_end(*self));
}

void retry_later(Self self, const std::string& why) {
  WorkerState& state = self->state;
  state.is_searching = false;
  ++state.search;
  if (std::exchange(state.is_retry_due, true)) return;
  if (state.last_reason != why) spdlog::info("waiting for the head: {}", why);
  state.last_reason = why;
  if (self->clock().now() - state.head_lost > state.options.head_timeout)
    return die(self, exit_peer_lost,
               fmt::format("no head at {}:{}: {}", state.options.node.fabric_host,
                           state.options.node.rendezvous_port + 1, why));
  self->delayed_send(self, state.options.retry_delay, tick_atom::value);
}

void run_rank(Self self, const Assignment& assignment) {
  WorkerState& state = self->state;
  state.is_searching = false;
  if (state.is_stopping || !state.ranks.empty()) return;
  if (!assignment.refusal.empty()) return die(self, exit_usage, "the head refuses this rank: " + assignment.refusal);
  spdlog::info("rank {} joins run {} of {} ranks", state.options.rank, assignment.run_id, assignment.ranks);
  state.run_id = assignment.run_id;
  auto control = std::make_shared<RankControl>();
  gpu::TcpGroup group;
  group.rank = state.options.rank;
  group.size = assignment.ranks;
  group.host = assignment.host;
  group.port = assignment.port;
  group.token = assignment.link_token;
  group.timeout = state.options.node.collective_timeout;
  RankWorkerOptions worker{state.options.rank,
                           assignment.run_id,
                           state.options.node.engine,
                           [group, control] { return gpu::make_tcp_communicator(group, control->stop); },
                           control,
                           state.head};
  const caf::actor actor = spawn_rank_worker(self->system(), std::move(worker));
  state.ranks.add(actor, std::move(control));
  self->monitor(actor);
  self->send(actor, start_atom::value);
}

// Runs `act` unless the search that it belongs to was given up meanwhile.
template <class Act>
auto of_this_search(Self self, Act act) {
  return [self, act, search = self->state.search](auto&... news) {
    if (search == self->state.search) act(news...);
  };
}

void say_hello(Self self) {
  WorkerState& state = self->state;
  const NodeOptions& node = state.options.node;
  const auto on_assignment = of_this_search(self, [self](Assignment& assignment) { run_rank(self, assignment); });
  const auto on_error = of_this_search(self, [self](caf::error& e) { retry_later(self, self->system().render(e)); });
  Hello hello{protocol_version, node.build_id, node.config_hash, node.settings, state.options.rank};
  self->request(state.head, hello_timeout, hello_atom::value, hello, caf::actor_cast<caf::actor>(self))
      .then([on_assignment](Assignment& assignment) { on_assignment(assignment); },
            [on_error](caf::error& error) { on_error(error); });
}

void meet(Self self, const caf::strong_actor_ptr& head) {
  if (!head) return retry_later(self, "no supervisor is published there");
  self->state.head = caf::actor_cast<caf::actor>(head);
  self->monitor(self->state.head);
  say_hello(self);
}

void connect(Self self) {
  WorkerState& state = self->state;
  if (state.is_stopping || !state.ranks.empty() || state.is_searching) return;
  state.is_searching = true;
  if (state.head) return say_hello(self);
  const auto on_found = of_this_search(self, [self](caf::strong_actor_ptr& head) { meet(self, head); });
  const auto on_error = of_this_search(self, [self](caf::error& e) { retry_later(self, self->system().render(e)); });
  // The middleman's own actor connects, so that no thread of the scheduler waits for a TCP handshake.
  const auto port = static_cast<std::uint16_t>(state.options.node.rendezvous_port + 1);
  self->request(self->system().middleman().actor_handle(), std::chrono::seconds(10), caf::connect_atom::value,
                state.options.node.fabric_host, port)
      .then([on_found](const caf::node_id&, caf::strong_actor_ptr& head,
                       const std::set<std::string>&) { on_found(head); },
            [on_error](caf::error& error) { on_error(error); });
}

void on_down(Self self, const caf::down_msg& down) {
  WorkerState& state = self->state;
  if (state.ranks.erase(down.source)) {
    state.run_id.clear();
    if (state.is_stopping) return self->quit();
    spdlog::info("rank {} ended; saying hello again", state.options.rank);
    state.head_lost = self->clock().now();
    return retry_later(self, "the rank ended");
  }
  if (!state.head || down.source != state.head.address()) return;
  spdlog::warn("the head is gone");
  state.head = nullptr;
  state.head_lost = self->clock().now();
  state.ranks.stop("the head is gone");
  if (state.ranks.empty()) retry_later(self, "the head is gone");
}

void on_drain(Self self) {
  self->state.is_stopping = true;
  self->state.ranks.stop("the node stops");
  if (self->state.ranks.empty()) self->quit();
}

caf::behavior worker_behavior(Self self, WorkerNodeOptions options) {
  self->state.options = std::move(options);
  self->state.head_lost = self->clock().now();
  self->set_down_handler([self](const caf::down_msg& down) { on_down(self, down); });
  self->set_exception_handler(keep_exception);
  return {
      [self](start_atom) { connect(self); },
      [self](tick_atom) {
        self->state.is_retry_due = false;
        connect(self);
      },
      [self](reset_atom, const std::string& run_id) {
        if (run_id == self->state.run_id) self->state.ranks.stop("the head ended this generation");
      },
      [self](drain_atom) { on_drain(self); },
      [self](inspect_atom) {
        return fmt::format(R"({{"actor":"worker-node","rank":{},"run_id":"{}"}})", self->state.options.rank,
                           self->state.run_id);
      },
  };
}

}  // namespace

caf::actor spawn_worker_node(caf::actor_system& system, WorkerNodeOptions options) {
  return system.spawn(worker_behavior, std::move(options));
}

}  // namespace tandem::actors
