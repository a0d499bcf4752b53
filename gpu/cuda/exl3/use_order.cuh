// Where the uses of a step's few rows lie when they are sorted by matrix: counted anew by every warp that wants to
// know.
//
// Cost: one load of up to exl3_sorted_uses_most ids, two votes for 32 of them; no plan, no barrier.
#pragma once

#include <climits>

#include "gpu/cuda/exl3/exl3.hpp"

namespace tandem::gpu::cuda {

// The place of a use among all: `first` is that of the first use of its matrix, `rank` its number among those.
struct UseOrder {
  int first = 0, rank = 0, count = 0;

  __device__ __forceinline__ int place() const { return first + rank; }
};

// By all threads of a warp.
__device__ __forceinline__ UseOrder order_of_use(const Exl3Uses& uses, int own) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const std::int32_t id = uses.ids[own];
  UseOrder order;
  for (int first = 0; first < uses.count; first += 32) {
    const int use = first + lane;
    const std::int32_t other = use < uses.count ? uses.ids[use] : INT_MAX;
    const unsigned same = __ballot_sync(0xffffffffu, other == id);
    order.first += __popc(__ballot_sync(0xffffffffu, other < id));
    order.count += __popc(same);
    const int before = own - first;  // uses of these 32 that come before
    order.rank += __popc(before >= 32 ? same : before > 0 ? same & ((1u << before) - 1u) : 0u);
  }
  return order;
}

}  // namespace tandem::gpu::cuda
