// Random words, the decode and matrix ceilings, and a delay.
//
// Shapes   decode: any number of 64 x 64 groups; a warp takes groups in turn, 2 blocks of 8 warps a multiprocessor.
// Bytes    512 K a group, read once.
// Limit    what they measure: memory, or the integer work of the decoder; the tensor cores.
#include "gpu/cuda/bench/bench_kernels.hpp"
#include "gpu/cuda/exl3/product_parts.cuh"

namespace tandem::gpu::cuda::bench {
namespace {

constexpr int decode_threads = 256;

__global__ void fill_kernel(std::uint32_t* words, std::size_t count) {
  const std::size_t step = static_cast<std::size_t>(gridDim.x) * blockDim.x;
  for (std::size_t i = static_cast<std::size_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < count; i += step) {
    std::uint64_t z = (i + 1) * 0x9E3779B97F4A7C15ull;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
    words[i] = static_cast<std::uint32_t>((z ^ (z >> 27)) >> 16);
  }
}

template <int bits>
__global__ void __launch_bounds__(decode_threads, 2)
    decode_kernel(const uint4* words, std::int64_t groups, std::uint32_t* out) {
  const int lane = threadIdx.x % 32;
  const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * blockDim.x / 32;
  std::int64_t group = (static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x) / 32;
  LanePieces<bits> next;
  if (group < groups) next.load(words + group * bits * 32 + lane);
  std::uint32_t fold[4] = {};
  while (group < groups) {
    const LaneStream<bits> stream(next);
    group += step;
    if (group < groups) next.load(words + group * bits * 32 + lane);
#pragma unroll
    for (int run = 0; run < 16; ++run) {
      std::uint32_t a[4];
      stream.template fragment<Exl3Codebook::mul1>(run, a);
      fold[run % 4] ^= a[0] ^ a[1];
      fold[(run + 1) % 4] ^= a[2] ^ a[3];
    }
  }
  const std::uint32_t all = fold[0] ^ fold[1] ^ fold[2] ^ fold[3];
  if (all == 0x12345678u) *out = all;  // keeps the work alive
}

int processors_here() {
  int device = 0, processors = 0;
  if (cudaGetDevice(&device) != cudaSuccess) return 0;
  return cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, device) == cudaSuccess ? processors : 0;
}

template <int bits>
cudaError_t launch_decode(cudaStream_t stream, const void* words, std::int64_t groups, std::uint32_t* out) {
  decode_kernel<bits>
      <<<2 * processors_here(), decode_threads, 0, stream>>>(static_cast<const uint4*>(words), groups, out);
  return cudaGetLastError();
}

constexpr int chains = 8, multiply_threads = 256, multiply_blocks = 2, multiply_rounds = 4096;

__global__ void __launch_bounds__(multiply_threads, multiply_blocks) multiply_kernel(float* out) {
  float sums[chains][4] = {};
  const std::uint32_t one = 0x3C003C00u + threadIdx.x, a[4] = {one, one, one, one};
  for (int round = 0; round < multiply_rounds; ++round) {
#pragma unroll
    for (int chain = 0; chain < chains; ++chain) multiply_add(sums[chain], a, one, one);
  }
  float all = 0;
#pragma unroll
  for (int chain = 0; chain < chains; ++chain) all += sums[chain][0] + sums[chain][1] + sums[chain][2] + sums[chain][3];
  if (all == 1.0f) *out = all;  // keeps the work alive
}

__global__ void delay_kernel(std::int64_t nanoseconds) {
  std::uint64_t start, now;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(start));
  do {
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
  } while (now - start < static_cast<std::uint64_t>(nanoseconds));
}

}  // namespace

cudaError_t fill_random(cudaStream_t stream, std::uint32_t* words, std::size_t count) {
  fill_kernel<<<1024, 256, 0, stream>>>(words, count);
  return cudaGetLastError();
}

cudaError_t decode_only(cudaStream_t stream, int bits, const void* words, std::int64_t groups, std::uint32_t* out) {
  switch (bits) {
    case 2:
      return launch_decode<2>(stream, words, groups, out);
    case 3:
      return launch_decode<3>(stream, words, groups, out);
    case 4:
      return launch_decode<4>(stream, words, groups, out);
    case 5:
      return launch_decode<5>(stream, words, groups, out);
    case 6:
      return launch_decode<6>(stream, words, groups, out);
    case 7:
      return launch_decode<7>(stream, words, groups, out);
    case 8:
      return launch_decode<8>(stream, words, groups, out);
    default:
      return cudaErrorInvalidValue;
  }
}

cudaError_t multiply_only(cudaStream_t stream, float* out, double& operations) {
  const int blocks = multiply_blocks * processors_here();
  constexpr double of_mma = 2.0 * 16 * 8 * 16;
  operations = of_mma * chains * multiply_rounds * (multiply_threads / 32.0) * blocks;
  multiply_kernel<<<blocks, multiply_threads, 0, stream>>>(out);
  return cudaGetLastError();
}

cudaError_t delay(cudaStream_t stream, std::int64_t nanoseconds) {
  delay_kernel<<<1, 1, 0, stream>>>(nanoseconds);
  return cudaGetLastError();
}

}  // namespace tandem::gpu::cuda::bench
