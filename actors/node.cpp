// Puts the actors of a head or of a worker process together and takes them down again in order.
#include "actors/node.hpp"

#include <fmt/format.h>

#include <atomic>
#include <caf/io/all.hpp>
#include <future>

#include "actors/prefill_actor.hpp"
#include "actors/reception.hpp"
#include "actors/supervisor.hpp"

namespace tandem::actors {

namespace {

struct SystemConfig : caf::actor_system_config {
  explicit SystemConfig(bool with_network) {
    add_message_types<caf::id_block::tandem>();
    // Workers that sleep on a condition variable: lower latency between nodes and no polling while idle.
    set("scheduler.policy", caf::atom("sharing"));
    set("scheduler.max-threads", 2);
    if (!with_network) return;
    load<caf::io::middleman>();
    set("middleman.workers", 0);
    set("middleman.heartbeat-interval", caf::timespan{std::chrono::milliseconds(500)});
    set("middleman.connection-timeout", caf::timespan{std::chrono::seconds(10)});
  }
};

// Counts down the reports of an inspection; whoever is last (or the deadline) delivers.
class Inspection {
 public:
  Inspection(std::size_t awaited, std::function<void(std::string)> done) : awaited_(awaited), done_(std::move(done)) {}
  void add(const std::string& report) {
    std::unique_lock lock{mutex_};
    if (!report.empty()) json_ += (json_.empty() ? "" : ",") + report;
    if (--awaited_ > 0) return;
    const std::string text = "[" + json_ + "]";
    lock.unlock();
    done_(text);
  }

 private:
  std::mutex mutex_;
  std::size_t awaited_;
  std::string json_;
  std::function<void(std::string)> done_;
};

class ActorFrontDoor final : public FrontDoor {
 public:
  ActorFrontDoor(caf::actor_system& system, SnapshotBoard& board) : system_(system), board_(board) {}

  RequestId submit(GenerationRequest request, std::shared_ptr<TokenSink> sink) override {
    const RequestId id = ++last_id_;
    NewRequest fresh{id, std::make_shared<const GenerationRequest>(std::move(request)), std::move(sink)};
    caf::anon_send(reception, submit_atom::value, std::move(fresh));
    return id;
  }
  void cancel(RequestId id) override { caf::anon_send(reception, cancel_atom::value, id); }
  void complete(RequestId id) override { caf::anon_send(reception, complete_atom::value, id); }
  RuntimeSnapshot snapshot() const override { return board_.read(); }
  void inspect(std::chrono::milliseconds timeout, std::function<void(std::string)> done) override {
    auto inspection = std::make_shared<Inspection>(inspected.size(), std::move(done));
    for (const caf::actor& actor : inspected)
      system_.spawn([actor, timeout, inspection](caf::event_based_actor* self) {
        self->request(actor, timeout, inspect_atom::value)
            .then([inspection](const std::string& report) { inspection->add(report); },
                  [inspection](caf::error&) { inspection->add({}); });
      });
  }

  reception_actor reception;
  std::vector<caf::actor> inspected;

 private:
  caf::actor_system& system_;
  SnapshotBoard& board_;
  std::atomic<RequestId> last_id_{0};  // only a counter: orders nothing else
};

class Head final : public HeadNode {
 public:
  explicit Head(NodeOptions options)
      : config_(options.transport == Transport::tcp),
        system_(config_),
        door_(system_, board_),
        options_(std::move(options)) {}
  ~Head() override { stop(std::chrono::milliseconds(0)); }

  Result<void> start() {
    supervisor_ = spawn_supervisor(system_, options_, &board_);
    if (options_.transport == Transport::tcp)
      if (auto published = publish(); !published) return published.error();
    prefill_ = spawn_prefill(system_, options_.scheduler.prefill_rows_per_request);
    decode_ = spawn_decode(system_, options_.speculation);
    scheduler_ =
        spawn_scheduler(system_, options_.scheduler, {prefill_, decode_, supervisor_, &board_, options_.on_step});
    guard_ = spawn_memory_guard(system_, options_.memory, &board_);
    door_.reception = spawn_reception(system_, scheduler_, &board_);
    for (const caf::strong_actor_ptr& ptr : everyone()) door_.inspected.push_back(caf::actor_cast<caf::actor>(ptr));
    introduce_scheduler(supervisor_, scheduler_);
    introduce_vital(supervisor_, "scheduler", caf::actor_cast<caf::actor>(scheduler_));
    introduce_vital(supervisor_, "prefill", caf::actor_cast<caf::actor>(prefill_));
    introduce_vital(supervisor_, "decode", caf::actor_cast<caf::actor>(decode_));
    introduce_vital(supervisor_, "memory guard", caf::actor_cast<caf::actor>(guard_));
    introduce_vital(supervisor_, "reception", caf::actor_cast<caf::actor>(door_.reception));
    caf::anon_send(supervisor_, start_atom::value);
    return {};
  }

  FrontDoor& front_door() override { return door_; }

  void stop(std::chrono::milliseconds deadline) override {
    if (std::exchange(is_stopped_, true)) return;
    caf::scoped_actor self{system_};
    if (scheduler_) drain(self, deadline);
    caf::anon_send(supervisor_, drain_atom::value);
    self->wait_for(supervisor_);  // ends when its rank workers have: their threads are joined with the system
    if (door_.reception) self->send_exit(door_.reception, caf::exit_reason::user_shutdown);
    if (scheduler_) self->send_exit(scheduler_, caf::exit_reason::user_shutdown);
    if (prefill_) self->send_exit(prefill_, caf::exit_reason::user_shutdown);
    if (decode_) self->send_exit(decode_, caf::exit_reason::user_shutdown);
    if (guard_) self->send_exit(guard_, caf::exit_reason::user_shutdown);
    door_.inspected.clear();
  }

 private:
  // Publishing before (start) makes the port a promise: a taken port is an error of start, not of some later moment.
  Result<void> publish() {
    const auto port = static_cast<std::uint16_t>(options_.rendezvous_port + 1);
    auto published = system_.middleman().publish(supervisor_, port, options_.fabric_host.c_str(), true);
    if (published) return {};
    return Error{ErrorCode::io, fmt::format("{}:{}", options_.fabric_host, port),
                 "cannot listen: " + system_.render(published.error()), "a free port"};
  }

  void drain(caf::scoped_actor& self, std::chrono::milliseconds deadline) {
    board_.update([](RuntimeSnapshot& s) {
      if (s.state != NodeState::failed) s.state = NodeState::draining;
    });
    const auto deadline_ms = static_cast<std::uint32_t>(deadline.count());
    self->request(scheduler_, deadline + std::chrono::seconds(2), drain_atom::value, deadline_ms)
        .receive([](drained_atom) {}, [](caf::error&) {});
  }

  std::vector<caf::strong_actor_ptr> everyone() const {
    return {
        caf::actor_cast<caf::strong_actor_ptr>(scheduler_),  caf::actor_cast<caf::strong_actor_ptr>(prefill_),
        caf::actor_cast<caf::strong_actor_ptr>(decode_),     caf::actor_cast<caf::strong_actor_ptr>(guard_),
        caf::actor_cast<caf::strong_actor_ptr>(supervisor_), caf::actor_cast<caf::strong_actor_ptr>(door_.reception)};
  }

  SnapshotBoard board_;  // outlives the system: actors hold plain pointers to it
  SystemConfig config_;
  caf::actor_system system_;
  ActorFrontDoor door_;
  NodeOptions options_;
  caf::actor supervisor_;
  prefill_actor prefill_;
  decode_actor decode_;
  scheduler_actor scheduler_;
  memory_guard_actor guard_;
  bool is_stopped_ = false;
};

class Worker final : public WorkerProcess {
 public:
  explicit Worker(WorkerNodeOptions options) : config_(true), system_(config_) {
    node_ = spawn_worker_node(system_, std::move(options));
    caf::anon_send(node_, start_atom::value);
  }
  ~Worker() override { stop(); }
  void stop() override {
    if (std::exchange(is_stopped_, true)) return;
    caf::anon_send(node_, drain_atom::value);
    caf::scoped_actor self{system_};
    self->wait_for(node_);
  }

 private:
  SystemConfig config_;
  caf::actor_system system_;
  caf::actor node_;
  bool is_stopped_ = false;
};

}  // namespace

Result<std::unique_ptr<HeadNode>> start_head(NodeOptions options) {
  auto head = std::make_unique<Head>(std::move(options));
  if (auto started = head->start(); !started) return started.error();
  return std::unique_ptr<HeadNode>(std::move(head));
}

Result<std::unique_ptr<WorkerProcess>> start_worker(WorkerNodeOptions options) {
  return std::unique_ptr<WorkerProcess>(std::make_unique<Worker>(std::move(options)));
}

}  // namespace tandem::actors
