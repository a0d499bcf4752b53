// EnginePass: the forward pass of an engine's step with the logits that it samples from; short passes as one
// (Ops::run_as_one).
//
// Between two steps a device has nothing to do, so whatever the host can do for a step before its turn is time won.
// While a device works, the pass that will probably follow is prepared: so many tokens more of each sequence, of which
// only the ids are unknown, and the Engram rows with them. If the next pass is that one, it has only to be started; if
// not, nothing was lost.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "gpu/model/forward.hpp"

namespace tandem::gpu {

struct PassRows {
  RowBatch rows;
  ForwardOptions options;
  std::vector<std::int32_t> wanted;  // rows of the result, in order, whose logits are needed
};

struct PassResult {
  ForwardResult rows;
  Tensor logits;  // [wanted, vocab] or empty
};

// Text tokens that a sequence will be fed behind its present end; the logits of all are wanted.
struct NextRows {
  SequenceState* sequence = nullptr;
  std::int32_t count = 1;
};

class EnginePass {
 public:
  // `forward` must outlive this.
  explicit EnginePass(ForwardPass& forward) noexcept : forward_(forward) {}

  // Errors: those of ForwardPass.
  Result<PassResult> run(const PassRows& pass);
  // Prepares the pass that feeds these rows in this order. Whatever lies in the forward pass's workspace stays valid.
  void prepare(std::span<const NextRows> next, bool taps);
  // Sequences come or go: what was prepared is void.
  void forget() noexcept { next_.reset(); }

 private:
  struct Prepared {
    PassRows pass;
    std::vector<Buffer> engram_rows;  // of the pass, one a table
    PassResult result;                // its tensors, to be filled when it runs
    Workspace::Mark end;              // of the workspace behind it
  };
  Result<void> compute(const PassRows& pass, PassResult& result);
  // Starts the pass that was prepared with the tokens of `pass`. Returns whether it was still there to be started.
  Result<bool> start(const PassRows& pass);
  // Whether `pass` may run as one.
  bool is_one(const PassRows& pass) const noexcept;
  // Whether `pass` is the one that was prepared, whatever its tokens are.
  bool is_next(const PassRows& pass) const noexcept;

  ForwardPass& forward_;
  std::unique_ptr<Prepared> next_;  // lists in it are staged from where they are
};

}  // namespace tandem::gpu
