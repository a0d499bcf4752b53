// Kernels that only measurements need.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

namespace tandem::gpu::cuda::bench {

// Random words: any of them are valid EXL3 weights.
cudaError_t fill_random(cudaStream_t stream, std::uint32_t* words, std::size_t count);

// Reads lane-major EXL3 words of `bits` (2..8) bits, `groups` times 64 x 64 weights, decodes every weight with the
// product's own code and folds all into one value: no rows, no matrix instruction, no epilogue. `out` is one word.
cudaError_t decode_only(cudaStream_t stream, int bits, const void* words, std::int64_t groups, std::uint32_t* out);

// Issues mma.m16n8k16 (FP16 in, FP32 sums) from registers alone on the whole card, the instruction of the EXL3
// products. Sets `operations` to what it counts, two a multiply-add; `out` is one float.
cudaError_t multiply_only(cudaStream_t stream, float* out, double& operations);

// Keeps the stream busy for so many nanoseconds, so that what follows is queued before it runs.
cudaError_t delay(cudaStream_t stream, std::int64_t nanoseconds);

}  // namespace tandem::gpu::cuda::bench
