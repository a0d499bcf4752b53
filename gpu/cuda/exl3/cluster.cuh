// What the kernels need of thread block clusters and of dependent launches, as named functions.
#pragma once

#include <cstdint>

namespace tandem::gpu::cuda {

// First half of a barrier over the cluster: shared memory written before is visible to all who pass the second half.
__device__ __forceinline__ void cluster_arrive() {
  asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
}

// Second half: waits until every thread of the cluster has arrived.
__device__ __forceinline__ void cluster_wait() {
  asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
}

// Where `local`, an address in this block's shared memory, is in the cluster's for block `rank`.
__device__ __forceinline__ std::uint32_t address_in_rank(const void* local, int rank) {
  const auto address = static_cast<std::uint32_t>(__cvta_generic_to_shared(local));
  std::uint32_t remote;
  asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(remote) : "r"(address), "r"(rank));
  return remote;
}

// Writes four floats at `local`, an address in this block's shared memory, in the shared memory of block `rank`.
__device__ __forceinline__ void write_to_rank(const float* local, int rank, float4 value) {
  const std::uint32_t remote = address_in_rank(local, rank);
  asm volatile("st.shared::cluster.v4.f32 [%0], {%1, %2, %3, %4};"
               :
               : "r"(remote), "f"(value.x), "f"(value.y), "f"(value.z), "f"(value.w)
               : "memory");
}

// The same of an integer.
__device__ __forceinline__ void write_to_rank(const int* local, int rank, int value) {
  const std::uint32_t remote = address_in_rank(local, rank);
  asm volatile("st.shared::cluster.s32 [%0], %1;" : : "r"(remote), "r"(value) : "memory");
}

// The integer at `local`, an address in this block's shared memory, in the shared memory of block `rank`.
__device__ __forceinline__ int read_from_rank(const int* local, int rank) {
  const std::uint32_t remote = address_in_rank(local, rank);
  int value;
  asm volatile("ld.shared::cluster.s32 %0, [%1];" : "=r"(value) : "r"(remote) : "memory");
  return value;
}

// Waits until the kernels before this one in the stream have finished and their writes are visible. A kernel that was
// not launched as a dependent one passes at once.
__device__ __forceinline__ void wait_for_earlier_kernels() {
  asm volatile("griddepcontrol.wait;" ::: "memory");
}

// Lets the next kernel of the stream start as soon as every block of this one has come here.
__device__ __forceinline__ void let_next_kernel_start() {
  asm volatile("griddepcontrol.launch_dependents;");
}

}  // namespace tandem::gpu::cuda
