// Signature: what a walk over a step would launch, folded into 128 bits.
//
// Two walks with one signature launch the same kernels with the same arguments in the same order: addresses, shapes and
// flags are all in it, the contents of staged lists are not. So a graph captured from one walk serves the other.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "gpu/linear.hpp"

namespace tandem::gpu::cuda {

class Signature {
 public:
  // Adds the bytes of a value; bytes between its members do not count.
  template <class T>
  void add(const T& value) noexcept {
    static_assert(std::is_trivially_copyable_v<T>, "arguments of launches are plain values");
    T copy = value;
    __builtin_clear_padding(&copy);
    constexpr std::size_t words = (sizeof(T) + sizeof(std::uint64_t) - 1) / sizeof(std::uint64_t);
    std::uint64_t bits[words] = {};
    std::memcpy(bits, &copy, sizeof(T));
    for (const std::uint64_t word : bits) mix(word);
  }
  void add(const Linear& weight) noexcept {
    add(weight.codes.data.get());
    add(weight.scales.data.get());
    add(weight.n);
    add(weight.k);
    add(weight.format);
  }

  bool operator==(const Signature&) const = default;
  std::uint64_t low() const noexcept { return low_; }

 private:
  void mix(std::uint64_t word) noexcept {
    low_ = (low_ ^ word) * 0x9E3779B97F4A7C15U;
    low_ ^= low_ >> 29;
    high_ = (high_ + word) * 0xC2B2AE3D27D4EB4FU;
    high_ ^= high_ >> 31;
  }

  std::uint64_t low_ = 0x243F6A8885A308D3U;
  std::uint64_t high_ = 0x13198A2E03707344U;
};

}  // namespace tandem::gpu::cuda
