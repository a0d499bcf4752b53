// The end of a site and the input of the next one (contracts: Ops::end_site).
#pragma once

#include <cuda_runtime_api.h>

#include "gpu/tensor.hpp"

namespace tandem::gpu::cuda {

struct SiteCall {
  Tensor streams;  // [T, C * D]
  Tensor parts;    // [blocks * T, D]
  Tensor post, comb;
  bool round = true;
  Tensor sum;  // [T, D]
  // Of the next site, for end_site_with_input.
  Tensor pre;
  const float* norm = nullptr;
  float eps = 0;
  Tensor input;  // [T, D]
};

cudaError_t end_site(cudaStream_t stream, const SiteCall& call);

bool is_joint_site(const SiteCall& call);  // four streams, rows that fit shared memory and are aligned
cudaError_t end_site_with_input(cudaStream_t stream, const SiteCall& call);

// The same by blocks of which several fit a multiprocessor: what the function above takes for many rows.
bool is_many_sites(const SiteCall& call);
cudaError_t end_many_sites(cudaStream_t stream, const SiteCall& call);

}  // namespace tandem::gpu::cuda
