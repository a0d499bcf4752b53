// Walking, capturing and starting steps.
#include "gpu/cuda/step_graphs.hpp"

#include <algorithm>
#include <utility>

namespace tandem::gpu::cuda {
namespace {

// Row counts, odd and even positions and a few context sizes; a graph of a thousand kernels holds about a megabyte.
constexpr std::size_t entries_most = 96;

}  // namespace

StepGraphs::Entry& StepGraphs::entry_of(const Signature& signature) {
  for (Entry& entry : entries_) {
    if (entry.signature == signature) return entry;
  }
  if (entries_.size() == entries_most) {
    const auto by_age = [](const Entry& a, const Entry& b) { return a.last_use < b.last_use; };
    entries_.erase(std::min_element(entries_.begin(), entries_.end(), by_age));
  }
  return entries_.emplace_back(Entry{signature, nullptr, 0, 0});
}

Result<void> StepGraphs::run(const std::function<Result<void>()>& body) {
  if (!stream_.is_sound()) return stream_.wait();
  stream_.join();
  staging_.begin_step();
  stream_.begin_walk(Walk::listening);
  const auto walked = body();
  stream_.join();
  const auto signature = stream_.end_walk();
  const bool fits = staging_.end_step();
  if (!signature || !fits) return body();
  if (!walked) return walked;
  Entry* entry = &entry_of(*signature);
  const bool is_new = entry->last_use == 0;
  entry->last_use = ++uses_;
  if (is_new) return body();
  if (!entry->graph) entry = capture(body);
  if (entry == nullptr) return body();
  start(*entry);
  return {};
}

StepGraphs::Entry* StepGraphs::capture(const std::function<Result<void>()>& body) {
  if (!stream_.is_sound()) return nullptr;
  staging_.begin_step();
  stream_.check(cudaStreamBeginCapture(stream_.handle(), cudaStreamCaptureModeRelaxed), "capture of a step");
  stream_.begin_walk(Walk::capturing);
  const auto walked = body();
  stream_.join();
  const auto signature = stream_.end_walk();
  const bool fits = staging_.end_step();
  cudaGraph_t graph = nullptr;
  stream_.check(cudaStreamEndCapture(stream_.handle(), &graph), "end of a capture");
  const std::unique_ptr<CUgraph_st, decltype(&cudaGraphDestroy)> owner(graph, &cudaGraphDestroy);
  if (!walked || !signature || !fits || graph == nullptr) return nullptr;
  cudaGraphExec_t made = nullptr;
  stream_.check(cudaGraphInstantiate(&made, graph, 0), "graph of a step");
  if (made == nullptr) return nullptr;
  Entry& entry = entry_of(*signature);
  entry.graph = {made, [](cudaGraphExec_t one) { cudaGraphExecDestroy(one); }};
  entry.last_use = uses_;
  std::size_t nodes = 0;
  stream_.check(cudaGraphGetNodes(graph, nullptr, &nodes), "nodes of a graph");
  entry.nodes = static_cast<std::int64_t>(nodes);
  ++captured_;
  return &entry;
}

void StepGraphs::start(Entry& entry) {
  staging_.send_step();
  if (stream_.is_sound()) stream_.check(cudaGraphLaunch(entry.graph.get(), stream_.handle()), "start of a step");
  staging_.free_step();
  nodes_ = entry.nodes;
  ++started_;
}

}  // namespace tandem::gpu::cuda
