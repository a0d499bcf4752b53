// The last block to end: it goes on with what all of them made, instead of a kernel of its own.
//
// Which block that is changes from run to run; what it computes does not, so it may read results of others but must not
// add up in the order of arrival. Tickets are 0 before and after.
#pragma once

#include <cuda_runtime.h>

namespace tandem::gpu::cuda {

// Whether this block is the last of `blocks` that share the ticket; if so, what the others wrote before is visible to
// all of its threads. All threads of the block take part.
__device__ inline bool is_last_block(unsigned* ticket, unsigned blocks) {
  __shared__ bool is_last;
  __threadfence();  // what this thread wrote comes before the ticket
  __syncthreads();
  if (threadIdx.x == 0) {
    is_last = atomicAdd(ticket, 1U) == blocks - 1;
    if (is_last) *ticket = 0;
  }
  __syncthreads();
  if (is_last) __threadfence();
  return is_last;
}

}  // namespace tandem::gpu::cuda
