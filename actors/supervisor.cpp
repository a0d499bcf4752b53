// Builds generations of ranks, loses them, builds the next one; on one node or over several.
#include "actors/supervisor.hpp"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <map>

#include "actors/last_words.hpp"
#include "actors/local_ranks.hpp"
#include "actors/rank_group.hpp"
#include "gpu/comm/tcp_communicator.hpp"

namespace tandem::actors {

namespace {

constexpr int exit_peer_lost = 12;
constexpr int exit_load_error = 14;  // and above: what a restored rank would meet again
constexpr auto restart_delay_max = std::chrono::milliseconds(30'000);

// Why a generation ended.
struct Loss {
  int exit_code = exit_peer_lost;
  std::string reason;
};

struct SupervisorState;
using Self = caf::stateful_actor<SupervisorState>*;

struct SupervisorState {
  static inline const char* name = "node-supervisor";
  Self self;
  NodeOptions options;
  SnapshotBoard* board = nullptr;
  scheduler_actor scheduler;

  RankRoster roster;
  bool was_ready = false;
  bool is_stopping = false;
  bool is_fatal = false;
  bool is_backing_off = false;
  Loss last_loss;
  std::map<caf::actor_addr, std::string> vital;  // actors that nothing replaces, by name
  std::chrono::milliseconds delay{0};
  LocalRanks locals;                                              // those that have not ended yet
  std::map<int, caf::actor> nodes;                                // tcp: the other ranks' nodes that said hello
  std::map<int, caf::typed_response_promise<Assignment>> hellos;  // and wait for their assignment

  explicit SupervisorState(Self actor) : self(actor) {}
  // Who watches the others is watched by nobody: its end, if it was not ordered, is the node's.
  ~SupervisorState();
};

void set_state(Self self, NodeState node_state, const std::string& detail) {
  self->state.board->update([&](RuntimeSnapshot& s) {
    s.state = node_state;
    s.detail = detail;
    s.ranks = self->state.roster.reports();
    s.run_id = self->state.roster.run_id();
  });
}

void die(Self self, int exit_code, const std::string& reason) {
  SupervisorState& state = self->state;
  if (state.is_fatal || state.is_stopping) return;
  state.is_fatal = true;
  set_state(self, NodeState::failed, reason);
  if (state.options.on_fatal) state.options.on_fatal(exit_code, reason);
}

SupervisorState::~SupervisorState() {
  if (is_stopping) return;
  const std::string reason = describe_end(*self);
  if (scheduler) caf::anon_send(scheduler, ranks_down_atom::value, reason);
  die(self, 1, reason);
}

// --- building a generation

// Connects a rank to its group; given up soon after `stop` became true.
using Connect = std::function<Result<std::unique_ptr<gpu::Communicator>>(const std::atomic<bool>& stop)>;

void spawn_local(Self self, int rank, Connect connect) {
  SupervisorState& state = self->state;
  auto control = std::make_shared<RankControl>();
  RankWorkerOptions worker{rank,
                           state.roster.run_id(),
                           state.options.engine,
                           [connect = std::move(connect), control] { return connect(control->stop); },
                           control,
                           self};
  caf::actor actor = spawn_rank_worker(self->system(), std::move(worker));
  state.locals.add(actor, std::move(control));
  self->monitor(actor);
  self->send(actor, start_atom::value);
}

void start_threads(Self self) {
  SupervisorState& state = self->state;
  const int ranks = state.options.ranks;
  auto members = std::make_shared<std::vector<std::unique_ptr<gpu::Communicator>>>();
  if (ranks == 1)
    members->push_back(gpu::make_solo_communicator());
  else
    *members = gpu::make_thread_communicators(ranks, state.options.collective_timeout);
  for (int rank = 0; rank < ranks; ++rank)
    spawn_local(self, rank, [members, rank](const std::atomic<bool>&) -> Result<std::unique_ptr<gpu::Communicator>> {
      return std::move((*members)[static_cast<std::size_t>(rank)]);
    });
}

void start_tcp(Self self) {
  SupervisorState& state = self->state;
  gpu::TcpGroup group;
  group.rank = 0;
  group.size = state.options.ranks;
  group.host = state.options.fabric_host;
  group.port = state.options.rendezvous_port;
  group.token = make_run_id();  // a name of its own: the run's is shown to whoever asks for the state
  group.timeout = state.options.collective_timeout;
  for (auto& [rank, promise] : state.hellos)
    promise.deliver(Assignment{"", state.roster.run_id(), group.token, state.options.ranks, group.host, group.port});
  state.hellos.clear();
  spawn_local(self, 0, [group](const std::atomic<bool>& stop) { return gpu::make_tcp_communicator(group, stop); });
}

bool is_group_present(const SupervisorState& state) {
  return state.options.transport == Transport::threads ||
         static_cast<int>(state.hellos.size()) == state.options.ranks - 1;
}

// Starts a generation once the last one's local workers are gone and every other node has said hello.
void try_start(Self self) {
  SupervisorState& state = self->state;
  if (state.is_stopping || state.is_fatal || state.is_backing_off) return;
  if (state.roster.is_active() || !state.locals.empty()) return;
  if (!is_group_present(state))
    return set_state(
        self, NodeState::rendezvous,
        fmt::format("waiting for {} of {} other ranks", state.options.ranks - 1 - static_cast<int>(state.hellos.size()),
                    state.options.ranks - 1));
  state.roster.begin(state.options.ranks, make_run_id());
  const bool is_local = state.options.transport == Transport::threads;
  set_state(self, is_local ? NodeState::loading : NodeState::rendezvous,
            is_local ? "loading the model" : "the ranks meet");
  if (is_local)
    start_threads(self);
  else
    start_tcp(self);
}

// --- losing one

void stop_group(Self self, const std::string& reason) {
  SupervisorState& state = self->state;
  state.locals.stop(reason);
  for (auto& [rank, node] : state.nodes) self->send(node, reset_atom::value, state.roster.run_id());
  state.roster.end();
}

void lose_group(Self self, int exit_code, const std::string& reason) {
  SupervisorState& state = self->state;
  if (!state.roster.is_active()) return;
  const bool is_first_start = !state.was_ready;
  stop_group(self, reason);
  if (state.is_stopping || state.is_fatal) return;
  if (is_first_start) return die(self, exit_code, reason);  // whoever ends the process says why
  // What a rank met itself explains more than what the others then missed.
  if (exit_code >= exit_load_error || state.last_loss.exit_code < exit_load_error)
    state.last_loss = {exit_code, reason};
  spdlog::warn("the ranks are lost: {}", reason);
  self->send(state.scheduler, ranks_down_atom::value, reason);
  set_state(self, NodeState::loading, "restoring the ranks: " + reason);
  state.delay = std::clamp(state.delay * 2, state.options.restart_delay, restart_delay_max);
  state.is_backing_off = true;
  self->delayed_send(self, state.delay, tick_atom::value);
}

// The recovery window is over. What kept the ranks away is the cause if it is more than their absence.
void give_up(Self self, const std::string& reason) {
  const Loss& last = self->state.last_loss;
  const int exit_code = last.exit_code >= exit_load_error ? last.exit_code : exit_peer_lost;
  die(self, exit_code, last.reason.empty() ? reason : fmt::format("{}: {}", reason, last.reason));
}

void on_rank_state(Self self, const RankState& report, const caf::actor& worker) {
  SupervisorState& state = self->state;
  if (state.is_fatal || !state.roster.update(report, worker)) return;
  state.board->update([&](RuntimeSnapshot& s) {
    s.ranks = state.roster.reports();
    // The group has met as soon as one rank loads.
    if (report.state != NodeState::loading || s.state != NodeState::rendezvous) return;
    s.state = NodeState::loading;
    s.detail = "loading the model";
  });
  if (report.state == NodeState::failed) return lose_group(self, report.exit_code, report.detail);
  if (report.state != NodeState::ready || !state.roster.is_complete()) return;
  auto group = state.roster.group();
  if (!group) return lose_group(self, 1, group.error().message());
  state.board->update([&](RuntimeSnapshot& s) { s.engine = group->info; });
  set_state(self, NodeState::ready, "");
  state.delay = std::chrono::milliseconds{0};
  state.last_loss = {};
  const gpu::EngineInfo info = group->info;
  self->send(state.scheduler, ranks_up_atom::value, std::move(*group));
  if (state.was_ready) spdlog::info("the ranks are back (run {})", state.roster.run_id());
  if (!state.was_ready && state.options.on_ready) state.options.on_ready(info);
  state.was_ready = true;
}

void on_down(Self self, const caf::down_msg& down) {
  SupervisorState& state = self->state;
  if (const auto vital = state.vital.find(down.source); vital != state.vital.end())
    return die(self, 1, fmt::format("the {} actor ended: {}", vital->second, self->system().render(down.reason)));
  if (state.locals.erase(down.source)) {
    // A worker that ends without having reported `failed` (killed, exception in CAF) still takes its generation with
    // it.
    lose_group(self, 1, "a rank worker ended");
    if (state.is_stopping && state.locals.empty()) return self->quit();
    return try_start(self);
  }
  for (auto& [rank, node] : state.nodes) {
    if (node.address() != down.source) continue;
    const int lost = rank;
    state.hellos.erase(lost);
    state.nodes.erase(lost);
    return lose_group(self, exit_peer_lost, fmt::format("the node of rank {} is gone", lost));
  }
}

// --- other nodes

// Names the lines that only one of two lists has; both are KEY=VALUE lines in one order.
std::string describe_difference(std::string_view here, std::string_view there) {
  std::string differing;
  while (!here.empty() || !there.empty()) {
    const std::string_view ours = here.substr(0, here.find('\n')), theirs = there.substr(0, there.find('\n'));
    here.remove_prefix(std::min(ours.size() + 1, here.size()));
    there.remove_prefix(std::min(theirs.size() + 1, there.size()));
    if (ours != theirs) differing += fmt::format("{}{} here, {} there", differing.empty() ? "" : "; ", ours, theirs);
  }
  return differing.empty() ? "the hashes differ" : differing;
}

std::string refusal_of(const SupervisorState& state, const Hello& hello) {
  if (hello.protocol != protocol_version)
    return fmt::format("protocol {} here, {} there", protocol_version, hello.protocol);
  if (hello.build_id != state.options.build_id)
    return fmt::format("build {} here, {} there", state.options.build_id, hello.build_id);
  if (hello.config_hash != state.options.config_hash)
    return "another configuration: " + describe_difference(state.options.settings, hello.settings);
  if (hello.rank < 1 || hello.rank >= state.options.ranks)
    return fmt::format("rank {} of {} ranks", hello.rank, state.options.ranks);
  return {};
}

// A node that is alive keeps its rank: a second one must not take the place of a rank that serves. It may ask again,
// for the first one may be dead without our knowing it yet.
bool is_taken(const SupervisorState& state, const Hello& hello, const caf::actor& node) {
  const auto holder = state.nodes.find(hello.rank);
  return holder != state.nodes.end() && holder->second != node;
}

caf::result<Assignment> on_hello(Self self, const Hello& hello, const caf::actor& node) {
  SupervisorState& state = self->state;
  if (auto refusal = refusal_of(state, hello); !refusal.empty()) {
    spdlog::warn("rank {} is refused: {}", hello.rank, refusal);
    return Assignment{refusal, "", "", 0, "", 0};
  }
  if (is_taken(state, hello, node))
    return caf::make_error(caf::sec::runtime_error, fmt::format("rank {} is taken by another node", hello.rank));
  auto promise = self->make_response_promise<Assignment>();
  if (state.nodes.emplace(hello.rank, node).second) self->monitor(node);
  // A node that says hello again no longer listens to the answer of the first one.
  if (const auto earlier = state.hellos.find(hello.rank); earlier != state.hellos.end())
    earlier->second.deliver(caf::make_error(caf::sec::runtime_error, "a later hello took its place"));
  state.hellos.insert_or_assign(hello.rank, promise);
  try_start(self);
  return promise;
}

void on_drain(Self self) {
  SupervisorState& state = self->state;
  state.is_stopping = true;
  set_state(self, NodeState::stopped, "");
  stop_group(self, "the node stops");
  if (state.locals.empty()) self->quit();
}

std::string report(const SupervisorState& state) {
  return fmt::format(R"({{"actor":"node-supervisor","run_id":"{}","ranks":{},"local_workers":{}}})",
                     state.roster.run_id(), state.options.ranks, state.locals.size());
}

caf::behavior supervisor_behavior(Self self, NodeOptions options, SnapshotBoard* board) {
  self->state.options = std::move(options);
  self->state.board = board;
  self->set_down_handler([self](const caf::down_msg& down) { on_down(self, down); });
  self->set_exception_handler(keep_exception);
  return {
      [self](submit_atom, const scheduler_actor& scheduler) { self->state.scheduler = scheduler; },
      [self](vital_atom, const std::string& name, const caf::actor& actor) {
        self->monitor(actor);
        self->state.vital.emplace(actor.address(), name);
      },
      [self](start_atom) { try_start(self); },
      [self](tick_atom) {
        self->state.is_backing_off = false;
        try_start(self);
      },
      [self](rank_state_atom, const RankState& state, const caf::actor& worker) { on_rank_state(self, state, worker); },
      [self](ranks_down_atom, const std::string& run_id, const std::string& reason) {
        if (run_id == self->state.roster.run_id()) lose_group(self, exit_peer_lost, reason);
      },
      [self](lost_atom, const std::string& reason) { give_up(self, reason); },
      [self](hello_atom, const Hello& hello, const caf::actor& node) { return on_hello(self, hello, node); },
      [self](drain_atom) { on_drain(self); },
      [self](inspect_atom) { return report(self->state); },
  };
}

}  // namespace

caf::actor spawn_supervisor(caf::actor_system& system, NodeOptions options, SnapshotBoard* board) {
  return system.spawn(supervisor_behavior, std::move(options), board);
}

void introduce_scheduler(const caf::actor& supervisor, const scheduler_actor& scheduler) {
  caf::anon_send(supervisor, submit_atom::value, scheduler);
}

void introduce_vital(const caf::actor& supervisor, const std::string& name, const caf::actor& actor) {
  caf::anon_send(supervisor, vital_atom::value, name, actor);
}

}  // namespace tandem::actors
