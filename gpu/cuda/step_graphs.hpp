// StepGraphs: whole steps as CUDA graphs.
//
// A step's operations are walked without launching anything, which fills the staging area and gives the step's
// signature. A graph captured under that signature is then started with one call. A signature seen for the first time
// runs operation by operation (workspaces may still grow), from the second time on it is captured.
//
// A body may cut its step into parts, each with a signature and a graph of its own: a part whose graph is known starts
// while the rest is walked, so the device waits for the walk of the first part only. What was started is never issued
// again: if a later part turns out to be new, the body runs once more in silence until it comes to that part.
//
// A step that will probably come can be walked while the device works on the one before it (prepare): then it is one
// graph, and all that is left to do is to start it.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "engram/error.hpp"
#include "gpu/cuda/staging.hpp"
#include "gpu/cuda/stream.hpp"

namespace tandem::gpu::cuda {

// Microseconds that the host has spent on steps so far, of which `walks` is what none of the others explains.
struct StepTimes {
  double waits = 0;   // for the area that the step before the last one has read
  double walks = 0;   // over the operations
  double copies = 0;  // starts of copies of staged lists
  double starts = 0;  // of graphs
};

class StepGraphs {
 public:
  // Both must outlive this.
  StepGraphs(Stream& stream, Staging& staging) noexcept : stream_(stream), staging_(staging) {}

  // Runs what `body` issues; it may be called up to three times and must issue the same each time. A body that waits
  // for the device runs operation by operation from that part on. Errors: those of `body`.
  Result<void> run(const std::function<Result<void>()>& body);
  using ByteLists = std::span<const std::span<const std::byte>>;
  // Walks a step that may come, of which no more is unknown than the contents of the lists `late`, each staged once.
  // Returns whether it has a graph; one whose signature comes the second time is captured.
  bool prepare(const std::function<Result<void>()>& body, ByteLists late);
  // Starts the step that was prepared last with these contents of its late lists. Returns false, and does nothing, if
  // there is none: it starts once, and run() discards it.
  bool start(ByteLists contents);
  // Ends a part of the step. Outside of run() it does nothing.
  void cut();

  std::int64_t captured() const noexcept { return captured_; }
  // Steps that were launches of graphs alone.
  std::int64_t started() const noexcept { return started_; }
  // Those among them that had been prepared.
  std::int64_t prepared() const noexcept { return prepared_; }
  // Kernels and copies of the last of them.
  std::int64_t nodes() const noexcept { return nodes_; }
  const StepTimes& times() const noexcept { return times_; }

 private:
  struct Entry {
    Signature signature;
    std::shared_ptr<CUgraphExec_st> graph;  // null: seen once
    std::int64_t last_use = 0;
    std::int64_t nodes = 0;
  };
  Entry* find(const Signature& signature) noexcept;
  Entry& entry_of(const Signature& signature);
  // What prepare() does between begin and end.
  bool walk_ahead(const std::function<Result<void>()>& body);
  // Walks or captures `body`. Returns what it returned; whether all of it can be graphs is is_whole_.
  Result<void> walk(Walk kind, const std::function<Result<void>()>& body);
  void begin_capture();
  void end_part();
  void keep_capture(const Signature& signature);
  // Marks all parts as used. Returns whether those that have not started were seen before.
  bool mark_parts();
  // Runs the parts that have not started operation by operation.
  Result<void> run_rest(const std::function<Result<void>()>& body);
  void end_silence();
  // Starts the parts that have not started and have graphs, in order, until one has none.
  void start_parts();
  void finish();

  Stream& stream_;
  Staging& staging_;
  std::vector<Entry> entries_;
  std::vector<Signature> parts_;  // of the present walk
  std::size_t started_parts_ = 0, silent_parts_ = 0;
  bool is_ahead_ = false;  // the walk is that of a step to come: it has one part, which does not start
  bool is_ready_ = false;  // parts_ and the staged lists are those of a step that was prepared
  bool is_whole_ = false;
  std::int64_t uses_ = 0, captured_ = 0, started_ = 0, prepared_ = 0, nodes_ = 0;
  StepTimes times_;
};

}  // namespace tandem::gpu::cuda
