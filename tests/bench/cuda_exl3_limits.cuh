// What an EXL3 product cannot beat on this card: the copy rate of its memory and the rate at which it decodes weights.
//
// The decode ceiling is a kernel that reads packed words as the product does, decodes every weight into registers with
// the product's own code and folds them into one value: no activations, no matrix instruction, no epilogue.
#pragma once

#include <algorithm>
#include <functional>

#include "gpu/cuda/exl3/lane_stream.cuh"
#include "tests/bench/cuda_exl3_device.cuh"

namespace exl3_device {

// Milliseconds of `body` on the stream: median of `repeats` after one warm-up.
inline double median_ms(cudaStream_t stream, int repeats, const std::function<void()>& body) {
  cudaEvent_t begin, end;
  require(cudaEventCreate(&begin), "event");
  require(cudaEventCreate(&end), "event");
  std::vector<float> times;
  for (int i = 0; i <= repeats; ++i) {
    require(cudaEventRecord(begin, stream), "event");
    body();
    require(cudaEventRecord(end, stream), "event");
    require(cudaEventSynchronize(end), "timed kernels");
    float ms = 0;
    require(cudaEventElapsedTime(&ms, begin, end), "event");
    if (i > 0) times.push_back(ms);
  }
  cudaEventDestroy(begin);
  cudaEventDestroy(end);
  std::nth_element(times.begin(), times.begin() + times.size() / 2, times.end());
  return times[times.size() / 2];
}

// Bytes read plus bytes written a second, device to device.
inline double copy_rate(cudaStream_t stream, void* pool, std::size_t bytes) {
  const std::size_t half = bytes / 2;
  const double ms = median_ms(stream, 9, [&] {
    require(cudaMemcpyAsync(static_cast<char*>(pool) + half, pool, half, cudaMemcpyDeviceToDevice, stream), "copy");
  });
  return 2.0 * half / ms * 1e3;
}

template <int bits, Exl3Codebook codebook>
__global__ void __launch_bounds__(256, 2) decode_only(const uint4* words, std::int64_t groups, std::uint32_t* out) {
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
      stream.template fragment<codebook>(run, a);
      fold[run % 4] ^= a[0] ^ a[1];
      fold[(run + 1) % 4] ^= a[2] ^ a[3];
    }
  }
  const std::uint32_t all = fold[0] ^ fold[1] ^ fold[2] ^ fold[3];
  if (all == 0x12345678u) *out = all;  // keeps the work alive
}

// Bytes of packed weights a second that the card can decode.
template <int bits, Exl3Codebook codebook>
double decode_rate(cudaStream_t stream, const void* pool, std::size_t bytes) {
  int processors = 0;
  require(cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, 0), "device");
  const Array<std::uint32_t> out(1);
  const auto groups = static_cast<std::int64_t>(bytes / (bits * 512));
  const double ms = median_ms(stream, 9, [&] {
    decode_only<bits, codebook><<<2 * processors, 256, 0, stream>>>(static_cast<const uint4*>(pool), groups, out.get());
  });
  require(cudaGetLastError(), "decode_only");
  return groups * bits * 512.0 / ms * 1e3;
}

inline double decode_rate(cudaStream_t stream, int bits, const void* pool, std::size_t bytes) {
  constexpr auto mul1 = Exl3Codebook::mul1;
  switch (bits) {
    case 2:
      return decode_rate<2, mul1>(stream, pool, bytes);
    case 3:
      return decode_rate<3, mul1>(stream, pool, bytes);
    case 4:
      return decode_rate<4, mul1>(stream, pool, bytes);
    case 5:
      return decode_rate<5, mul1>(stream, pool, bytes);
    default:
      return decode_rate<6, mul1>(stream, pool, bytes);
  }
}

}  // namespace exl3_device
