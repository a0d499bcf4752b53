// The checkpoint's tiles into lane-major order: one thread moves one 16-byte piece. Reads are contiguous; each byte is
// read and written once. Done once, at load.
#include "gpu/cuda/exl3/exl3.hpp"

namespace tandem::gpu::cuda {
namespace {

__global__ void pack_kernel(Exl3Shape shape, const uint4* trellis, uint4* words, std::int64_t pieces) {
  const std::int64_t index = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (index >= pieces) return;
  const int parts = 2 * shape.bits;
  const auto part = static_cast<int>(index % parts);
  words[exl3_piece(shape.inputs, shape.outputs, shape.bits, index / parts, part)] = trellis[index];
}

}  // namespace

cudaError_t exl3_pack(cudaStream_t stream, const Exl3Shape& shape, const void* trellis, void* words) {
  if (!exl3_accepts(shape)) return cudaErrorInvalidValue;
  constexpr int threads = 256;
  const std::int64_t pieces = exl3_bytes(shape.inputs, shape.outputs, shape.bits) / 16;
  const auto blocks = static_cast<unsigned>((pieces + threads - 1) / threads);
  pack_kernel<<<blocks, threads, 0, stream>>>(shape, static_cast<const uint4*>(trellis), static_cast<uint4*>(words),
                                              pieces);
  return cudaGetLastError();
}

}  // namespace tandem::gpu::cuda
