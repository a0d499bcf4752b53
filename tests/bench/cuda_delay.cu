// One thread that counts cycles.
#include "tests/bench/cuda_delay.hpp"

namespace {

__global__ void delay_kernel(long long cycles) {
  const long long start = clock64();
  while (clock64() - start < cycles) {
  }
}

}  // namespace

void delay_stream(cudaStream_t stream, long long cycles) {
  delay_kernel<<<1, 1, 0, stream>>>(cycles);
}
