// Drawing tokens: what each row's request asks for becomes lists on the device; only the tokens come back.
//
// The lists of a launch lie in the staging area at the same time. The area may start over between two of them, but must
// not reach the first one again before the launch: rows are drawn in pieces whose lists take half of it at most. A row
// whose own list is longer is left to the host.
#include <algorithm>
#include <vector>

#include "gpu/cuda/calls.hpp"
#include "gpu/cuda/draw_kernels.hpp"
#include "gpu/sampling/philox.hpp"

namespace tandem::gpu::cuda {
namespace {

constexpr std::size_t list_alignment = 256;  // at least that of the staging area

// Bytes that a row takes of the staging area at most, its job included.
std::size_t staged_bytes(std::size_t edits) noexcept {
  return edits * sizeof(LogitEdit) + sizeof(DrawJob) + 2 * list_alignment;
}

DrawJob job_of(const DrawRow& row, std::int64_t vocabulary) {
  const SamplingParams& params = row.context.params;
  DrawJob job;
  job.row = row.row;
  job.temperature = params.temperature;
  job.top_k = params.top_k > 0 && params.top_k < vocabulary ? params.top_k : 0;
  job.top_p = params.top_p;
  job.min_p = params.min_p;
  job.u = uniform({params.seed, row.context.position, DrawPurpose::target});
  return job;
}

// Collects the rows of a piece and launches them; results lie one behind the other, in the order of add().
class Drawing {
 public:
  Drawing(CudaContext& context, const Tensor& logits, std::int64_t rows)
      : context_(context),
        room_(context.staging.capacity() / 2),
        logits_(logits),
        work_(context.scratch().f32(rows, logits.cols)),
        drawn_(context.scratch().i32(1, rows).row<std::int32_t>(0)) {}

  // Returns false if the row must be left to the host.
  bool add(const DrawRow& row) {
    const std::vector<LogitEdit> edits = logit_edits(row.context, static_cast<std::size_t>(logits_.cols));
    const std::size_t bytes = staged_bytes(edits.size());
    if (bytes > room_) return false;
    if (staged_ + bytes > room_) launch();
    staged_ += bytes;
    DrawJob job = job_of(row, logits_.cols);
    job.edits = context_.staging.send(std::span<const LogitEdit>(edits));
    job.edit_count = static_cast<std::int32_t>(edits.size());
    jobs_.push_back(job);
    return true;
  }

  void launch() {
    if (jobs_.empty()) return;
    const auto count = static_cast<std::int64_t>(jobs_.size());
    DrawCall call;
    call.logits = logits_;
    call.jobs = context_.staging.send(std::span<const DrawJob>(jobs_));
    call.work = work_.slice_rows(launched_, count);
    call.tokens = drawn_ + launched_;
    context_.run("draw tokens", draw, call);
    launched_ += count;
    staged_ = 0;
    jobs_.clear();
  }

  const std::int32_t* drawn() const noexcept { return drawn_; }

 private:
  CudaContext& context_;
  const std::size_t room_;
  const Tensor logits_, work_;
  std::int32_t* const drawn_;
  std::vector<DrawJob> jobs_;
  std::size_t staged_ = 0;
  std::int64_t launched_ = 0;
};

}  // namespace

Result<void> draw_tokens(CudaContext& context, const Tensor& logits, std::span<const DrawRow> rows,
                         std::span<TokenId> tokens) {
  if (rows.empty()) return {};
  const Workspace::Scope scope(context.scratch());
  Drawing drawing(context, logits, static_cast<std::int64_t>(rows.size()));
  std::vector<std::size_t> places;  // of the rows that are drawn here
  for (std::size_t i = 0; i < rows.size(); ++i) {
    tokens[i] = -1;
    if (drawing.add(rows[i])) places.push_back(i);
  }
  drawing.launch();
  if (places.empty()) return {};
  std::vector<TokenId> drawn(places.size());
  if (auto ok = context.memory.download(drawing.drawn(), std::as_writable_bytes(std::span(drawn))); !ok) return ok;
  for (std::size_t i = 0; i < places.size(); ++i) tokens[places[i]] = drawn[i];
  return {};
}

}  // namespace tandem::gpu::cuda
