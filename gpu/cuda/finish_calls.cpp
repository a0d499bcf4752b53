// Finishing rows: host lists of positions and records become device lists, several tensors one launch.
#include <algorithm>
#include <vector>

#include "gpu/cuda/calls.hpp"
#include "gpu/cuda/finish_kernels.hpp"

namespace tandem::gpu::cuda {
namespace {

// Where the records go, and in which format: the same for all rows.
void add_places(CudaContext& context, const RowFinish& finish, FinishJob& job) {
  std::vector<std::byte*> places;
  for (std::size_t row = 0; row < finish.rings.size(); ++row) {
    places.push_back(finish.rings[row].at(finish.positions[row]));
  }
  for (std::size_t row = 0; row < finish.entries.size(); ++row) {
    places.push_back(finish.caches[row].at(finish.entries[row]));
  }
  if (places.empty()) return;
  job.places = context.staging.send(std::span<std::byte* const>(places));
  job.format = finish.rings.empty() ? finish.caches.front().format : finish.rings.front().format;
}

FinishJob job_of(CudaContext& context, const RowFinish& finish) {
  FinishJob job;
  job.x = finish.x;
  job.y = finish.y;
  if (finish.norm.weight != nullptr) job.norm = finish.norm.weight->data();
  job.eps = static_cast<float>(finish.norm.eps);
  job.round = finish.norm.round;
  job.factor = finish.factor;
  job.quantises_x4 = finish.quantises_x4;
  job.heads = finish.heads;
  if (finish.rope.pairs > 0) {
    job.pairs = finish.rope.pairs;
    job.positions = context.staging.send(finish.positions);
    job.cos = finish.rope.cos;
    job.sin = finish.rope.sin;
  }
  add_places(context, finish, job);
  return job;
}

}  // namespace

bool is_finish(std::span<const RowFinish> all) {
  // Records at positions and entries at once, or one row in two records, have nobody who needs them.
  const auto is_simple = [](const RowFinish& one) {
    return one.x.cols <= finish_cols_max && (one.rings.empty() || one.entries.empty());
  };
  return all.size() <= finish_jobs_max && std::all_of(all.begin(), all.end(), is_simple);
}

void finish_rows(CudaContext& context, std::span<const RowFinish> all) {
  FinishCall call;
  for (const RowFinish& finish : all) {
    if (!finish.x.empty()) call.jobs[call.count++] = job_of(context, finish);
  }
  if (call.count > 0) context.run("finish rows", finish, call);
}

}  // namespace tandem::gpu::cuda
