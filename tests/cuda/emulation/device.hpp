// The device language on a CPU: what translated kernels (translate.py) include first.
//
// A block runs at a time, its threads as fibers on one stack each. A thread runs until it waits for its warp (shuffles,
// __syncwarp) or its block (__syncthreads); when all that are left have arrived, they go on. Lanes that have ended do
// not count, as on a device. Names are those of the language, not ours.
#pragma once

#include <cuda_fp16.h>
#include <cuda_fp8.h>
#include <cuda_runtime.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>
#include <utility>
#include <vector>

#undef __shared__
#undef __launch_bounds__
#define __shared__ static
#define __launch_bounds__(...)

namespace tandem::gpu::emulation {

inline constexpr int lanes_of_warp = 32;

enum class Wait { nothing, warp, block, end };

struct AsyncCopy {
  void* to = nullptr;
  const void* from = nullptr;
  std::size_t bytes = 0;
};

// The running thread as the language shows it.
struct Thread {
  uint3 number{};
  int index = 0;
  unsigned exchanges = 0;                      // of its warp so far: which of the two boards comes next
  std::vector<AsyncCopy> open;                 // not committed
  std::vector<std::vector<AsyncCopy>> groups;  // committed, oldest first
};

struct Launch {
  dim3 grid, block;
  std::size_t shared_bytes = 0;
};

Thread& thread() noexcept;
uint3 block_number() noexcept;
const Launch& launch_shape() noexcept;
void* shared_memory() noexcept;
// One board of the running block: 8 bytes a thread.
std::uint64_t* board(unsigned number) noexcept;
void wait(Wait what);

// Runs `body` for every thread of every block.
void run(const Launch& launch, const std::function<void()>& body);

void copy_async(void* to, const void* from, std::size_t bytes);
void commit_copies();
// Completes all committed groups but the newest `left`.
void wait_for_copies(std::size_t left);

// Every lane shows a value; each gets that of lane `from`. Two boards in turn: a lane can be one exchange ahead at
// most.
template <class T>
T exchange(T value, int from) {
  static_assert(sizeof(T) <= sizeof(std::uint64_t));
  Thread& own = thread();
  std::uint64_t* values = board(own.exchanges++ % 2);
  std::memcpy(values + own.index, &value, sizeof(T));
  wait(Wait::warp);
  T result;
  std::memcpy(&result, values + own.index / lanes_of_warp * lanes_of_warp + from, sizeof(T));
  return result;
}

inline int lane() noexcept {
  return thread().index % lanes_of_warp;
}

}  // namespace tandem::gpu::emulation

#define threadIdx (tandem::gpu::emulation::thread().number)
#define blockIdx (tandem::gpu::emulation::block_number())
#define blockDim (tandem::gpu::emulation::launch_shape().block)
#define gridDim (tandem::gpu::emulation::launch_shape().grid)

inline void __syncthreads() {
  tandem::gpu::emulation::wait(tandem::gpu::emulation::Wait::block);
}
inline void __syncwarp() {
  tandem::gpu::emulation::exchange(0, 0);
}
template <class T>
T __shfl_sync(unsigned, T value, int lane) {
  return tandem::gpu::emulation::exchange(value, lane);
}
template <class T>
T __shfl_xor_sync(unsigned, T value, int mask) {
  return tandem::gpu::emulation::exchange(value, tandem::gpu::emulation::lane() ^ mask);
}
template <class T>
T __shfl_up_sync(unsigned, T value, int delta) {
  const int lane = tandem::gpu::emulation::lane();
  return tandem::gpu::emulation::exchange(value, lane < delta ? lane : lane - delta);
}
template <class T>
T __shfl_down_sync(unsigned, T value, int delta) {
  const int lane = tandem::gpu::emulation::lane();
  return tandem::gpu::emulation::exchange(value, lane + delta > 31 ? lane : lane + delta);
}
inline unsigned __reduce_max_sync(unsigned mask, unsigned value) {
  for (int step = 16; step > 0; step /= 2) value = std::max(value, __shfl_xor_sync(mask, value, step));
  return value;
}
inline unsigned __match_any_sync(unsigned mask, int value) {
  unsigned same = 0;
  for (int from = 0; from < 32; ++from) same |= __shfl_sync(mask, value, from) == value ? 1U << from : 0U;
  return same;
}
int __syncthreads_or(int predicate);

inline int __popc(unsigned bits) {
  return std::popcount(bits);
}
inline int __ffs(int bits) {
  return bits == 0 ? 0 : std::countr_zero(static_cast<unsigned>(bits)) + 1;
}
inline unsigned __float_as_uint(float value) {
  return std::bit_cast<unsigned>(value);
}
inline float __uint_as_float(unsigned bits) {
  return std::bit_cast<float>(bits);
}
inline float __int_as_float(int bits) {
  return std::bit_cast<float>(bits);
}
template <class T>
T __ldg(const T* from) {
  return *from;
}
template <class T>
T atomicAdd(T* at, T value) {
  return std::exchange(*at, *at + value);
}
template <class T>
T atomicMin(T* at, T value) {
  return std::exchange(*at, std::min(*at, value));
}
template <class T>
T atomicOr(T* at, T value) {
  return std::exchange(*at, *at | value);
}
template <class T>
T max(T a, T b) {
  return a < b ? b : a;
}
template <class T>
T min(T a, T b) {
  return b < a ? b : a;
}
