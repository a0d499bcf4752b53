// StepGraphs: whole steps as CUDA graphs.
//
// A step's operations are walked without launching anything, which fills the staging area and gives the step's
// signature. A graph captured under that signature is then started with one call. A signature seen for the first time
// runs operation by operation (workspaces may still grow), from the second time on it is captured.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "engram/error.hpp"
#include "gpu/cuda/staging.hpp"
#include "gpu/cuda/stream.hpp"

namespace tandem::gpu::cuda {

class StepGraphs {
 public:
  // Both must outlive this.
  StepGraphs(Stream& stream, Staging& staging) noexcept : stream_(stream), staging_(staging) {}

  // Runs what `body` issues; it may be called up to three times and must issue the same each time. A body that waits
  // for the device runs operation by operation. Errors: those of `body`.
  Result<void> run(const std::function<Result<void>()>& body);

  std::int64_t captured() const noexcept { return captured_; }
  std::int64_t started() const noexcept { return started_; }
  // Kernels and copies of the graph started last.
  std::int64_t nodes() const noexcept { return nodes_; }

 private:
  struct Entry {
    Signature signature;
    std::shared_ptr<CUgraphExec_st> graph;  // null: seen once
    std::int64_t last_use = 0;
    std::int64_t nodes = 0;
  };
  Entry& entry_of(const Signature& signature);
  // Captures `body` into the entry of the walk's own signature. Returns null if that walk cannot be a graph.
  Entry* capture(const std::function<Result<void>()>& body);
  void start(Entry& entry);

  Stream& stream_;
  Staging& staging_;
  std::vector<Entry> entries_;
  std::int64_t uses_ = 0, captured_ = 0, started_ = 0, nodes_ = 0;
};

}  // namespace tandem::gpu::cuda
