// One thread a rank that lives as long as its engine: a step costs a wake-up and no thread, as in a rank worker.
#include "ops/verbs/bench_ranks.hpp"

#include <algorithm>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

namespace tandem::ops {

namespace {

// Runs one job after the other on its own thread.
class RankThread {
 public:
  RankThread() : thread_([this] { work(); }) {}
  RankThread(const RankThread&) = delete;
  RankThread& operator=(const RankThread&) = delete;
  ~RankThread() {
    give(nullptr);
    thread_.join();
  }

  // Starts `job`; done() waits for its end.
  void give(std::function<void()> job) {
    {
      const std::lock_guard lock{mutex_};
      job_ = std::move(job);
      has_job_ = true;
    }
    changed_.notify_all();
  }
  void done() {
    std::unique_lock lock{mutex_};
    changed_.wait(lock, [this] { return !has_job_; });
  }

 private:
  void work() {
    std::unique_lock lock{mutex_};
    for (;;) {
      changed_.wait(lock, [this] { return has_job_; });
      if (!job_) return;
      lock.unlock();
      job_();
      lock.lock();
      has_job_ = false;
      changed_.notify_all();
    }
  }

  std::mutex mutex_;  // guards the two below
  std::condition_variable changed_;
  std::function<void()> job_;  // empty: the thread ends
  bool has_job_ = false;
  std::thread thread_;  // last: it uses the others
};

}  // namespace

struct BareRanks::Parts {
  std::vector<std::unique_ptr<gpu::Communicator>> communicators;  // outlive the engines: destroyed last
  std::vector<std::unique_ptr<gpu::Engine>> engines;
  std::vector<std::unique_ptr<RankThread>> threads;

  // Calls `act(rank)` on every rank's thread and waits for all.
  void on_all(const std::function<void(std::size_t)>& act) {
    for (std::size_t rank = 0; rank < threads.size(); ++rank) threads[rank]->give([&act, rank] { act(rank); });
    for (auto& thread : threads) thread->done();
  }
};

BareRanks::BareRanks(std::unique_ptr<Parts> parts) : parts_(std::move(parts)) {}
BareRanks::BareRanks(BareRanks&&) noexcept = default;
BareRanks& BareRanks::operator=(BareRanks&&) noexcept = default;
BareRanks::~BareRanks() = default;

Result<BareRanks> BareRanks::load(const gpu::EngineOptions& options, int ranks) {
  auto parts = std::make_unique<Parts>();
  if (ranks == 1)
    parts->communicators.push_back(gpu::make_solo_communicator());
  else
    parts->communicators = gpu::make_thread_communicators(ranks, std::chrono::minutes(2));
  parts->engines.resize(static_cast<std::size_t>(ranks));
  for (int rank = 0; rank < ranks; ++rank) parts->threads.push_back(std::make_unique<RankThread>());
  std::vector<std::optional<Error>> errors(static_cast<std::size_t>(ranks));
  parts->on_all([&](std::size_t rank) {
    if (auto reached = gpu::reach_devices(options, parts->communicators[rank], nullptr); !reached) {
      errors[rank] = reached.error();
      return parts->communicators[rank]->abort(reached.error().message());
    }
    auto engine = gpu::load_engine(
        options, *parts->communicators[rank], [](double, const std::string&) {}, nullptr);
    if (engine)
      parts->engines[rank] = std::move(*engine);
    else
      errors[rank] = engine.error();
  });
  for (const auto& error : errors)
    if (error) return *error;
  return BareRanks(std::move(parts));
}

const gpu::EngineInfo& BareRanks::info() const noexcept {
  return parts_->engines.front()->info();
}

Result<gpu::StepResult> BareRanks::step(const gpu::StepPlan& plan) {
  std::vector<std::optional<Result<gpu::StepResult>>> results(parts_->engines.size());
  parts_->on_all([&](std::size_t rank) { results[rank].emplace(parts_->engines[rank]->step(plan)); });
  for (const auto& result : results)
    if (!*result) return result->error();
  gpu::StepResult first = std::move(**results.front());
  for (const auto& result : results) first.seconds = std::min(first.seconds, (*result)->seconds);
  return first;
}

}  // namespace tandem::ops
