// Walking, capturing and starting steps.
#include "gpu/cuda/step_graphs.hpp"

#include <algorithm>
#include <chrono>
#include <utility>

namespace tandem::gpu::cuda {
namespace {

// Parts of steps: row counts, odd and even positions and a few context sizes; a graph of a thousand kernels holds about
// a megabyte.
constexpr std::size_t entries_most = 128;

// Adds the microseconds of its life to a sum, less what `others` have grown by meanwhile.
class Timer {
 public:
  explicit Timer(double& sum, double others = 0) noexcept : sum_(sum), others_(others) {}
  void stop(double others = 0) noexcept {
    sum_ += std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - begin_).count();
    sum_ -= others - others_;
  }

 private:
  double& sum_;
  double others_;
  std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
};

}  // namespace

StepGraphs::Entry* StepGraphs::find(const Signature& signature) noexcept {
  for (Entry& entry : entries_) {
    if (entry.signature == signature) return &entry;
  }
  return nullptr;
}

StepGraphs::Entry& StepGraphs::entry_of(const Signature& signature) {
  if (Entry* known = find(signature); known != nullptr) return *known;
  if (entries_.size() == entries_most) {
    const auto by_age = [](const Entry& a, const Entry& b) { return a.last_use < b.last_use; };
    entries_.erase(std::min_element(entries_.begin(), entries_.end(), by_age));
  }
  return entries_.emplace_back(Entry{signature, nullptr, 0, 0});
}

Result<void> StepGraphs::run(const std::function<Result<void>()>& body) {
  if (!stream_.is_sound()) return stream_.wait();
  stream_.join();
  is_ready_ = false;
  started_parts_ = 0;
  const auto walked = walk(Walk::listening, body);
  if (!is_whole_) return run_rest(body);
  if (!walked) {
    if (started_parts_ > 0) staging_.free_step();
    return walked;
  }
  if (started_parts_ < parts_.size()) {
    if (!mark_parts()) return run_rest(body);
    if (started_parts_ > 0) staging_.free_step();
    if (!walk(Walk::capturing, body) || !is_whole_) return run_rest(body);
    start_parts();
    if (started_parts_ < parts_.size()) return run_rest(body);
  }
  finish();
  return walked;
}

bool StepGraphs::prepare(const std::function<Result<void>()>& body, ByteLists late) {
  is_ready_ = false;
  if (!stream_.is_sound()) return false;
  stream_.join();
  started_parts_ = 0;
  staging_.expect(late);
  is_ahead_ = true;
  is_ready_ = walk_ahead(body);
  is_ahead_ = false;
  staging_.expect({});
  return is_ready_;
}

bool StepGraphs::walk_ahead(const std::function<Result<void>()>& body) {
  if (!walk(Walk::listening, body) || !is_whole_ || !staging_.has_late()) return false;
  const bool is_known = mark_parts();
  const Entry* entry = find(parts_.front());
  if (entry != nullptr && entry->graph) return true;
  if (!is_known || !walk(Walk::capturing, body) || !is_whole_ || !staging_.has_late()) return false;
  entry = find(parts_.front());
  return entry != nullptr && entry->graph;
}

bool StepGraphs::start(ByteLists contents) {
  if (!is_ready_ || !stream_.is_sound() || !staging_.tell_late(contents)) return false;
  is_ready_ = false;
  stream_.join();
  start_parts();
  finish();
  ++prepared_;
  return true;
}

Result<void> StepGraphs::walk(Walk kind, const std::function<Result<void>()>& body) {
  is_whole_ = true;
  parts_.clear();
  Timer wait(times_.waits);
  staging_.begin_step();
  wait.stop();
  Timer walking(times_.walks, times_.copies + times_.starts);
  stream_.begin_walk(kind);
  if (kind == Walk::capturing) begin_capture();
  const auto walked = body();
  end_part();
  stream_.end_walk();
  is_whole_ = staging_.end_step() && is_whole_;
  walking.stop(times_.copies + times_.starts);
  return walked;
}

void StepGraphs::cut() {
  if (is_ahead_) return;
  switch (stream_.walk()) {
    case Walk::none:
      return;
    case Walk::silent:
      if (++silent_parts_ == started_parts_) end_silence();
      return;
    case Walk::listening:
      return end_part();
    case Walk::capturing:
      end_part();
      return begin_capture();
  }
}

void StepGraphs::end_part() {
  stream_.join();
  const auto signature = stream_.take_signature();
  is_whole_ = is_whole_ && signature && staging_.fits();
  if (stream_.walk() == Walk::capturing) keep_capture(signature.value_or(Signature{}));
  if (!is_whole_) return;
  parts_.push_back(*signature);
  if (stream_.walk() == Walk::listening && !is_ahead_) start_parts();
}

void StepGraphs::start_parts() {
  while (started_parts_ < parts_.size()) {
    Entry* entry = find(parts_[started_parts_]);
    if (entry == nullptr || !entry->graph) return;
    entry->last_use = ++uses_;
    Timer copy(times_.copies);
    staging_.send_step();
    copy.stop();
    Timer start(times_.starts);
    if (stream_.is_sound()) stream_.check(cudaGraphLaunch(entry->graph.get(), stream_.handle()), "start of a step");
    start.stop();
    ++started_parts_;
  }
}

bool StepGraphs::mark_parts() {
  bool are_known = true;
  for (std::size_t i = started_parts_; i < parts_.size(); ++i) {
    Entry& entry = entry_of(parts_[i]);
    are_known = are_known && entry.last_use > 0;
    entry.last_use = ++uses_;
  }
  return are_known;
}

Result<void> StepGraphs::run_rest(const std::function<Result<void>()>& body) {
  if (started_parts_ == 0) return body();
  staging_.free_step();
  silent_parts_ = 0;
  staging_.begin_step();
  stream_.begin_walk(Walk::silent);
  const auto done = body();
  if (stream_.is_walking()) end_silence();
  return done;
}

void StepGraphs::end_silence() {
  stream_.end_walk();
  (void)staging_.end_step();
}

void StepGraphs::finish() {
  staging_.free_step();
  nodes_ = 0;
  for (const Signature& part : parts_) {
    if (const Entry* entry = find(part); entry != nullptr) nodes_ += entry->nodes;
  }
  ++started_;
}

void StepGraphs::begin_capture() {
  stream_.check(cudaStreamBeginCapture(stream_.handle(), cudaStreamCaptureModeRelaxed), "capture of a step");
}

// A part that has a graph already is captured all the same, because its operations must not launch.
void StepGraphs::keep_capture(const Signature& signature) {
  cudaGraph_t graph = nullptr;
  stream_.check(cudaStreamEndCapture(stream_.handle(), &graph), "end of a capture");
  const std::unique_ptr<CUgraph_st, decltype(&cudaGraphDestroy)> owner(graph, &cudaGraphDestroy);
  is_whole_ = is_whole_ && graph != nullptr;
  if (!is_whole_) return;
  Entry& entry = entry_of(signature);
  if (entry.graph) return;
  cudaGraphExec_t made = nullptr;
  stream_.check(cudaGraphInstantiate(&made, graph, 0), "graph of a step");
  if (made == nullptr) return;
  entry.graph = {made, [](cudaGraphExec_t one) { cudaGraphExecDestroy(one); }};
  entry.last_use = ++uses_;
  std::size_t nodes = 0;
  stream_.check(cudaGraphGetNodes(graph, nullptr, &nodes), "nodes of a graph");
  entry.nodes = static_cast<std::int64_t>(nodes);
  ++captured_;
}

}  // namespace tandem::gpu::cuda
