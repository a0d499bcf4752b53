// The log is written by the scheduler and read by the verb: one mutex, one wake-up when enough was seen.
#include "ops/verbs/bench_served.hpp"

#include <fmt/format.h>

#include <condition_variable>
#include <mutex>
#include <random>

#include "actors/node.hpp"
#include "net/http/json_writer.hpp"
#include "net/http/server.hpp"
#include "ops/deployment.hpp"
#include "ops/fabric_environment.hpp"
#include "ops/verbs/bench_streams.hpp"

namespace tandem::ops {

namespace {

using Clock = std::chrono::steady_clock;

constexpr auto patience = std::chrono::minutes(10);      // for a model to load or steps to be seen
constexpr auto glance = std::chrono::milliseconds(100);  // between looks at what may have failed meanwhile
constexpr auto end_patience = std::chrono::milliseconds(2'000);

// Every step, and how many in a row were nothing but the decoding of `lanes` lanes.
class StepLog {
 public:
  void expect(std::size_t lanes) {
    const std::lock_guard lock{mutex_};
    lanes_ = lanes;
    in_a_row_ = 0;
  }
  void add(const actors::StepTrace& trace, const gpu::StepPlan& plan) {
    {
      const std::lock_guard lock{mutex_};
      steps_.push_back({trace, plan});
      const bool is_steady =
          plan.close.empty() && plan.open.empty() && plan.prefill.empty() && plan.decode.size() == lanes_;
      in_a_row_ = is_steady ? in_a_row_ + 1 : 0;
      if (in_a_row_ != awaited_) return;
    }
    changed_.notify_all();
  }
  // Waits for `count` steady steps in a row; false after a glance.
  bool await(std::size_t count) {
    std::unique_lock lock{mutex_};
    awaited_ = count;
    return changed_.wait_for(lock, glance, [&] { return in_a_row_ >= count; });
  }
  // Returns how many steps were seen, and how many of the last ones were steady.
  std::pair<std::size_t, std::size_t> position() const {
    const std::lock_guard lock{mutex_};
    return {steps_.size(), in_a_row_};
  }
  std::vector<SeenStep> take() {
    const std::lock_guard lock{mutex_};
    return std::move(steps_);
  }

 private:
  mutable std::mutex mutex_;  // guards everything below
  std::condition_variable changed_;
  std::vector<SeenStep> steps_;
  std::size_t lanes_ = 0, in_a_row_ = 0, awaited_ = 0;
};

// What start and failure of the node say to the thread that waits for it.
class Readiness {
 public:
  void set(std::string failure) {
    {
      const std::lock_guard lock{mutex_};
      is_known_ = true;
      failure_ = std::move(failure);
    }
    changed_.notify_all();
  }
  Result<void> wait() {
    std::unique_lock lock{mutex_};
    if (!changed_.wait_for(lock, patience, [this] { return is_known_; }))
      return Error{ErrorCode::timeout, "model", "not loaded", "loaded in ten minutes"};
    if (!failure_.empty()) return Error{ErrorCode::unavailable, "server", failure_, "ready"};
    return {};
  }
  std::string failure() {
    const std::lock_guard lock{mutex_};
    return failure_;
  }

 private:
  std::mutex mutex_;  // guards the two below
  std::condition_variable changed_;
  bool is_known_ = false;
  std::string failure_;
};

// A question of about `tokens` tokens that no other lane asks.
std::string question(int lane, int tokens) {
  std::mt19937 random{static_cast<unsigned>(lane)};
  std::string text = "Add these numbers:";
  for (int written = 8; written < tokens; written += 3) text += fmt::format(" {}", random() % 90 + 10);
  return text;
}

std::string request_body(const LoadOptions& load, int lane) {
  net::http::JsonWriter json;
  json.begin_object().key("messages").begin_array().begin_object();
  json.key("role").string("user").key("content").string(question(lane, load.prompt)).end_object().end_array();
  json.key("stream").boolean(true).key("temperature").integer(0).key("ignore_eos").boolean(true);
  json.key("max_tokens").integer(load.answer_tokens);
  json.key("chat_template_kwargs").begin_object().key("thinking").boolean(false).end_object();
  return json.end_object().take();
}

// A moment of the measurement: what the node and the kernel have counted so far.
struct Moment {
  std::size_t step, in_a_row;
  actors::Counters counters;
  ThreadTimes threads;
  Clock::time_point time;
};

SteadyRun between(const Moment& begin, const Moment& end, int lanes) {
  SteadyRun run;
  run.first = begin.step;
  run.last = end.step - 1;
  run.seconds = std::chrono::duration<double>(end.time - begin.time).count();
  const auto steps = static_cast<std::int64_t>(end.counters.steps - begin.counters.steps);
  const auto tokens = end.counters.generation_tokens - begin.counters.generation_tokens;
  run.tokens_per_step = static_cast<double>(tokens) / static_cast<double>(steps * lanes);
  for (const auto& [name, time] : end.threads) {
    const auto before = begin.threads.find(name);
    const ThreadTime since = before == begin.threads.end() ? ThreadTime{} : before->second;
    run.cpu_per_step[name] = {(time.ran - since.ran) / steps, (time.waited - since.waited) / steps};
  }
  return run;
}

class Served final : public ServedModel {
 public:
  explicit Served(net::text::Tokenizer tokenizer) : tokenizer_(std::move(tokenizer)) {}
  ~Served() override { stop(); }

  Result<void> start(actors::NodeOptions node, net::http::ServerOptions http) {
    node.on_ready = [this](const gpu::EngineInfo&) { readiness_.set({}); };
    node.on_fatal = [this](int, const std::string& reason) { readiness_.set(reason); };
    node.on_step = [this](const actors::StepTrace& trace, const gpu::StepPlan& plan) { log_.add(trace, plan); };
    engine_options_ = node.engine;
    auto head = actors::start_head(std::move(node));
    if (!head) return head.error();
    head_ = std::move(*head);
    server_ = std::make_unique<net::http::HttpServer>(head_->front_door(), tokenizer_, std::move(http));
    auto port = server_->start();
    if (!port) return port.error();
    port_ = *port;
    return readiness_.wait();
  }

  Result<SteadyRun> measure(const LoadOptions& load) override {
    log_.expect(static_cast<std::size_t>(load.lanes));
    std::vector<std::string> bodies;
    for (int lane = 0; lane < load.lanes; ++lane) bodies.push_back(request_body(load, lane));
    auto run = watch(load, BenchStreams(port_, std::move(bodies)));
    if (!run) return run;
    if (auto idle = become_idle(); !idle) return idle.error();
    return run;
  }

  // The node stops before the server: see `tandem serve`.
  std::vector<SeenStep> stop() override {
    if (head_) head_->stop(end_patience);
    if (server_) server_->stop(end_patience);
    server_.reset();
    head_.reset();
    return log_.take();
  }

  const gpu::EngineOptions& engine_options() const override { return engine_options_; }

 private:
  Result<SteadyRun> watch(const LoadOptions& load, const BenchStreams& streams) {
    const auto warm = static_cast<std::size_t>(load.warm_steps);
    if (auto seen = await(warm, streams); !seen) return seen.error();
    const Moment begin = moment();
    const std::size_t wanted = begin.in_a_row + static_cast<std::size_t>(load.steps) + 1;
    if (auto seen = await(wanted, streams); !seen) return seen.error();
    return between(begin, moment(), load.lanes);
  }

  Result<void> await(std::size_t steps, const BenchStreams& streams) {
    const auto deadline = Clock::now() + patience;
    while (!log_.await(steps)) {
      if (const auto why = streams.failure()) return Error{ErrorCode::unavailable, "a client's stream", *why, "tokens"};
      if (const auto why = readiness_.failure(); !why.empty())
        return Error{ErrorCode::unavailable, "server", why, "steps"};
      if (Clock::now() > deadline) return Error{ErrorCode::timeout, "steps", fmt::format("fewer than {}", steps), ""};
    }
    return {};
  }

  // Clients that hang up are cancelled within a step: the next measurement begins with an empty server.
  Result<void> become_idle() {
    log_.expect(0);
    const auto deadline = Clock::now() + patience;
    for (;;) {
      const auto snapshot = head_->front_door().snapshot();
      if (snapshot.running + snapshot.waiting == 0) return {};
      if (Clock::now() > deadline) return Error{ErrorCode::timeout, "server", "still running", "idle"};
      log_.await(1);
    }
  }

  Moment moment() const {
    const auto [step, in_a_row] = log_.position();
    return {step, in_a_row, head_->front_door().snapshot().counters, read_thread_times(), Clock::now()};
  }

  net::text::Tokenizer tokenizer_;
  gpu::EngineOptions engine_options_;
  StepLog log_;
  Readiness readiness_;
  std::unique_ptr<actors::HeadNode> head_;
  std::unique_ptr<net::http::HttpServer> server_;
  std::uint16_t port_ = 0;
};

// The settings of `tandem serve`, with what a bench decides by itself.
Result<Settings> settings_of(const ServedOptions& options) {
  return Settings::resolve({{"model.dir", options.model},
                            {"model.backend", options.backend},
                            {"model.numerics", options.numerics},
                            {"ranks", std::to_string(options.ranks)},
                            {"threads", std::to_string(options.threads)},
                            {"transport", "threads"},
                            {"lanes.max", std::to_string(options.lanes_max)},
                            {"step.ahead", options.runs_ahead ? "1" : "0"},
                            {"draft.tokens", std::to_string(options.drafts)},
                            {"draft.lanes", std::to_string(options.lanes_max)},
                            {"api.host", "127.0.0.1"},
                            {"api.port", "0"},
                            {"api.key_file", ""}},
                           {});
}

}  // namespace

Result<std::unique_ptr<ServedModel>> ServedModel::start(const ServedOptions& options) {
  auto settings = settings_of(options);
  if (!settings) return settings.error();
  if (auto prepared = prepare_fabric(*settings, 0); !prepared) return prepared.error();
  auto node = node_options(*settings);
  if (!node) return node.error();
  node->speculation.yield_min = 0;
  auto http = server_options(*settings);
  if (!http) return http.error();
  auto tokenizer = net::text::Tokenizer::load(node->engine.model / "tokenizer.json");
  if (!tokenizer) return tokenizer.error();
  auto served = std::make_unique<Served>(std::move(*tokenizer));
  if (auto started = served->start(std::move(*node), std::move(*http)); !started) return started.error();
  return std::unique_ptr<ServedModel>(std::move(served));
}

}  // namespace tandem::ops
