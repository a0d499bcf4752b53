// Drawing tokens: what each row's request asks for becomes lists on the device; only the tokens come back.
#include <vector>

#include "gpu/cuda/calls.hpp"
#include "gpu/cuda/draw_kernels.hpp"
#include "gpu/sampling/philox.hpp"

namespace tandem::gpu::cuda {
namespace {

DrawJob job_of(CudaContext& context, const DrawRow& row, std::int64_t vocabulary) {
  const SamplingParams& params = row.context.params;
  const std::vector<LogitEdit> edits = logit_edits(row.context, static_cast<std::size_t>(vocabulary));
  DrawJob job;
  job.row = row.row;
  job.edits = context.staging.send(std::span<const LogitEdit>(edits));
  job.edit_count = static_cast<std::int32_t>(edits.size());
  job.temperature = params.temperature;
  job.top_k = params.top_k > 0 && params.top_k < vocabulary ? params.top_k : 0;
  job.top_p = params.top_p;
  job.min_p = params.min_p;
  job.u = uniform({params.seed, row.context.position, DrawPurpose::target});
  return job;
}

}  // namespace

Result<void> draw_tokens(CudaContext& context, const Tensor& logits, std::span<const DrawRow> rows,
                         std::span<TokenId> tokens) {
  if (rows.empty()) return {};
  const Workspace::Scope scope(context.scratch());
  std::vector<DrawJob> jobs;
  for (const DrawRow& row : rows) jobs.push_back(job_of(context, row, logits.cols));
  const auto count = static_cast<std::int64_t>(rows.size());
  DrawCall call;
  call.logits = logits;
  call.jobs = context.staging.send(std::span<const DrawJob>(jobs));
  call.work = context.scratch().f32(count, logits.cols);
  call.tokens = context.scratch().i32(1, count).row<std::int32_t>(0);
  context.run("draw tokens", draw, call);
  return context.memory.download(call.tokens, std::as_writable_bytes(tokens.first(rows.size())));
}

}  // namespace tandem::gpu::cuda
