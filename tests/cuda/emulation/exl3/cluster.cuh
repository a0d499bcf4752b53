// Clusters on a CPU: what gpu/cuda/exl3/cluster.cuh declares. Their blocks run together, threads in turn.
#pragma once

#include "tests/cuda/emulation/device.hpp"

namespace tandem::gpu::cuda {

inline void cluster_arrive() {
  ++emulation::thread().arrivals;
}

inline void cluster_wait() {
  emulation::wait(emulation::Wait::cluster);
}

inline void write_to_rank(const float* local, int rank, float4 value) {
  std::memcpy(emulation::of_rank(local, rank), &value, sizeof value);
}

inline void write_to_rank(const int* local, int rank, int value) {
  std::memcpy(emulation::of_rank(local, rank), &value, sizeof value);
}

inline int read_from_rank(const int* local, int rank) {
  int value;
  std::memcpy(&value, emulation::of_rank(local, rank), sizeof value);
  return value;
}

inline void wait_for_earlier_kernels() {}

inline void let_next_kernel_start() {}

}  // namespace tandem::gpu::cuda
