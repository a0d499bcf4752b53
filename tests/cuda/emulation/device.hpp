// The device language on a CPU: what translated kernels (translate.py) include first.
//
// A block, or the blocks of one cluster, run at a time, threads as fibers on one stack each. A thread runs until it
// waits for its warp (shuffles, __syncwarp), its block (__syncthreads) or its cluster; when all that are left have
// arrived, they go on. Lanes that have ended do not count, as on a device. Names are those of the language, not ours.
#pragma once

#include <cuda_bf16.h>
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

enum class Wait { nothing, warp, block, cluster, end };

struct AsyncCopy {
  void* to = nullptr;
  const void* from = nullptr;  // null: zeros
  std::size_t bytes = 0;
};

// The running thread as the language shows it.
struct Thread {
  uint3 number{};
  int index = 0;                               // in its block
  int rank = 0;                                // of its block in the cluster
  unsigned arrivals = 0;                       // at the cluster's barrier
  unsigned exchanges = 0;                      // of its warp so far: which of the two boards comes next
  std::vector<AsyncCopy> open;                 // not committed
  std::vector<std::vector<AsyncCopy>> groups;  // committed, oldest first
};

struct Launch {
  dim3 grid, block;
  std::size_t shared_bytes = 0;
  int cluster = 1;  // blocks along x
};

// What a thread shows to its warp.
struct Slot {
  alignas(16) unsigned char bytes[48];
};

Thread& thread() noexcept;
uint3 block_number() noexcept;
const Launch& launch_shape() noexcept;
void* shared_memory() noexcept;
// The same place of shared memory as `local` in the block of another rank.
void* of_rank(const void* local, int rank) noexcept;
// One board of the running block, a slot a thread.
Slot* board(unsigned number) noexcept;
void wait(Wait what);

// Runs `body` for every thread of every block.
void run(const Launch& launch, const std::function<void()>& body);

void copy_async(void* to, const void* from, std::size_t bytes);
void commit_copies();
// Completes all committed groups but the newest `left`.
void wait_for_copies(std::size_t left);

// Every lane shows a value and gets the slots of its warp. Two boards in turn: a lane can be one exchange ahead at
// most.
template <class T>
const Slot* show(const T& value) {
  static_assert(sizeof(T) <= sizeof(Slot));
  Thread& own = thread();
  Slot* slots = board(own.exchanges++ % 2);
  std::memcpy(slots + own.index, &value, sizeof(T));
  wait(Wait::warp);
  return slots + own.index / lanes_of_warp * lanes_of_warp;
}

// Every lane shows a value; each gets that of lane `from`.
template <class T>
T exchange(T value, int from) {
  T result;
  std::memcpy(&result, show(value) + from, sizeof(T));
  return result;
}

// The fp16 number in the lower half of `bits`.
float half_value(unsigned bits) noexcept;

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
inline int __reduce_add_sync(unsigned mask, int value) {
  for (int step = 16; step > 0; step /= 2) value += __shfl_xor_sync(mask, value, step);
  return value;
}
inline unsigned __ballot_sync(unsigned mask, bool predicate) {
  unsigned votes = 0;
  for (int from = 0; from < 32; ++from) votes |= __shfl_sync(mask, predicate, from) ? 1U << from : 0U;
  return votes;
}
inline unsigned __match_any_sync(unsigned mask, int value) {
  unsigned same = 0;
  for (int from = 0; from < 32; ++from) same |= __shfl_sync(mask, value, from) == value ? 1U << from : 0U;
  return same;
}
int __syncthreads_or(int predicate);
inline void __threadfence() {}  // one block runs at a time

inline unsigned __dp4a(unsigned a, unsigned b, unsigned sum) {
  for (int shift = 0; shift < 32; shift += 8) sum += (a >> shift & 255U) * (b >> shift & 255U);
  return sum;
}
inline unsigned __byte_perm(unsigned a, unsigned b, unsigned selector) {
  const std::uint64_t both = std::uint64_t{b} << 32 | a;
  unsigned result = 0;
  for (int i = 0; i < 4; ++i) result |= static_cast<unsigned>(both >> (selector >> (4 * i) & 7U) * 8 & 255U) << (8 * i);
  return result;
}
inline unsigned __funnelshift_r(unsigned low, unsigned high, unsigned shift) {
  return static_cast<unsigned>((std::uint64_t{high} << 32 | low) >> (shift & 31U));
}
// Exact in double for every operand that the codebooks have, so rounded once.
inline __half2 __hfma2(__half2 a, __half2 b, __half2 c) {
  const float2 x = __half22float2(a), y = __half22float2(b), z = __half22float2(c);
  return {__double2half(double{x.x} * y.x + z.x), __double2half(double{x.y} * y.y + z.y)};
}

inline int __popc(unsigned bits) {
  return std::popcount(bits);
}
inline int __ffs(int bits) {
  return bits == 0 ? 0 : std::countr_zero(static_cast<unsigned>(bits)) + 1;
}
inline unsigned __float_as_uint(float value) {
  return std::bit_cast<unsigned>(value);
}
inline int __float_as_int(float value) {
  return std::bit_cast<int>(value);
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
void __stcs(T* to, T value) {
  *to = value;
}
template <class T>
T __ldcg(const T* from) {
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
T atomicMax(T* at, T value) {
  return std::exchange(*at, std::max(*at, value));
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
