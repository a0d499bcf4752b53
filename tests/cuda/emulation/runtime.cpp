// The calls of the CUDA runtime that the backend makes, on host memory: everything is done when a call returns.
#include <cuda_runtime_api.h>

#include <cstdlib>
#include <cstring>

#include "tests/cuda/emulation/dry_run.hpp"

namespace {

using tandem::gpu::emulation::DryRun;
using tandem::gpu::emulation::is_reserved;

constexpr std::size_t alignment = 256;                    // of cudaMalloc
constexpr std::size_t most_bytes = std::size_t{1} << 40;  // more than any device has

cudaError_t allocate(void** data, std::size_t bytes) {
  *data = bytes > most_bytes ? nullptr : std::aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
  return *data == nullptr ? cudaErrorMemoryAllocation : cudaSuccess;
}

// What a dry run captures is the number of nodes; handles only have to differ from null.
std::int64_t nodes_before = 0, nodes_captured = 0;
int handle = 0;

cudaError_t only_dry() {
  return DryRun::is_on() ? cudaSuccess : cudaErrorNotSupported;
}

}  // namespace

extern "C" {

cudaError_t cudaGetLastError() {
  return cudaSuccess;
}
const char* cudaGetErrorString(cudaError_t) {
  return "emulated failure";
}
cudaError_t cudaMalloc(void** data, std::size_t bytes) {
  if (!DryRun::is_on()) return allocate(data, bytes);
  *data = tandem::gpu::emulation::reserve_addresses(bytes);
  return *data == nullptr ? cudaErrorMemoryAllocation : cudaSuccess;
}
cudaError_t cudaMallocHost(void** data, std::size_t bytes) {
  return allocate(data, bytes);
}
cudaError_t cudaFree(void* data) {
  if (!is_reserved(data)) std::free(data);
  return cudaSuccess;
}
cudaError_t cudaFreeHost(void* data) {
  return cudaFree(data);
}
cudaError_t cudaMemsetAsync(void* data, int value, std::size_t bytes, cudaStream_t) {
  if (is_reserved(data)) {
    DryRun::add_node();
  } else {
    std::memset(data, value, bytes);
  }
  return cudaSuccess;
}
cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, cudaMemcpyKind, cudaStream_t) {
  if (is_reserved(to)) {
    DryRun::add_node();
  } else if (is_reserved(from)) {
    std::memset(to, 0, bytes);
  } else {
    std::memcpy(to, from, bytes);
  }
  return cudaSuccess;
}
cudaError_t cudaStreamSynchronize(cudaStream_t) {
  return cudaSuccess;
}
cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned) {
  *stream = nullptr;
  return cudaSuccess;
}
cudaError_t cudaStreamDestroy(cudaStream_t) {
  return cudaSuccess;
}
cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned) {
  *event = nullptr;
  return cudaSuccess;
}
cudaError_t cudaEventDestroy(cudaEvent_t) {
  return cudaSuccess;
}
cudaError_t cudaEventSynchronize(cudaEvent_t) {
  return cudaSuccess;
}
cudaError_t cudaEventRecord(cudaEvent_t, cudaStream_t) {
  return cudaSuccess;
}
cudaError_t cudaStreamWaitEvent(cudaStream_t, cudaEvent_t, unsigned) {
  return cudaSuccess;
}
cudaError_t cudaStreamBeginCapture(cudaStream_t, cudaStreamCaptureMode) {
  nodes_before = DryRun::nodes();
  return only_dry();
}
cudaError_t cudaStreamEndCapture(cudaStream_t, cudaGraph_t* graph) {
  nodes_captured = DryRun::nodes() - nodes_before;
  *graph = DryRun::is_on() ? reinterpret_cast<cudaGraph_t>(&handle) : nullptr;
  return only_dry();
}
cudaError_t cudaGraphInstantiate(cudaGraphExec_t* made, cudaGraph_t, unsigned long long) {
  *made = DryRun::is_on() ? reinterpret_cast<cudaGraphExec_t>(&handle) : nullptr;
  return only_dry();
}
cudaError_t cudaGraphLaunch(cudaGraphExec_t, cudaStream_t) {
  return only_dry();
}
cudaError_t cudaGraphGetNodes(cudaGraph_t, cudaGraphNode_t*, std::size_t* nodes) {
  *nodes = static_cast<std::size_t>(nodes_captured);
  return only_dry();
}
cudaError_t cudaGraphDestroy(cudaGraph_t) {
  return cudaSuccess;
}
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t) {
  return cudaSuccess;
}
cudaError_t cudaGetDeviceCount(int* devices) {
  *devices = 1;
  return cudaSuccess;
}
cudaError_t cudaSetDevice(int) {
  return cudaSuccess;
}
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int) {
  *properties = {};
  return cudaSuccess;
}

}  // extern "C"
