// Signature: what a walk over a step would launch, folded into 256 bits.
//
// Two walks with one signature launch the same kernels with the same arguments in the same order: addresses, shapes and
// flags are all in it, the contents of staged lists are not. So a graph captured from one walk serves the other.
//
// A step adds its arguments anew each time, and folding them is host time: four words go to four chains that do not
// wait for each other.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "gpu/cuda/exl3/exl3.hpp"
#include "gpu/cuda/finish_kernels.hpp"
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
    constexpr std::size_t words = sizeof(T) / sizeof(std::uint64_t), rest = sizeof(T) % sizeof(std::uint64_t);
    const auto* bytes = reinterpret_cast<const unsigned char*>(&copy);
    for (std::size_t i = 0; i < words; ++i) mix(i % chains, word_at(bytes + i * sizeof(std::uint64_t), 8));
    if (rest > 0) mix(words % chains, word_at(bytes + words * sizeof(std::uint64_t), rest));
  }
  void add(const Linear& weight) noexcept {
    add(weight.codes.data.get());
    add(weight.scales.data.get());
    add(weight.n);
    add(weight.k);
    add(weight.format);
  }
  // Lists of fixed length: places behind the last one are as they were made.
  void add(const Exl3Set& set) noexcept { add_list(set.members, set.count); }
  void add(const FinishCall& call) noexcept { add_list(call.jobs, call.count); }

  bool operator==(const Signature&) const = default;

 private:
  static constexpr std::size_t chains = 4;

  template <class T>
  void add_list(const T* items, int count) noexcept {
    add(count);
    for (int i = 0; i < count; ++i) add(items[i]);
  }
  static std::uint64_t word_at(const unsigned char* bytes, std::size_t count) noexcept {
    std::uint64_t word = 0;
    std::memcpy(&word, bytes, count);
    return word;
  }
  void mix(std::size_t chain, std::uint64_t word) noexcept {
    std::uint64_t& state = state_[chain];
    state = std::rotl((state ^ word) * 0x9E3779B97F4A7C15U, 29);
  }

  std::uint64_t state_[chains] = {0x243F6A8885A308D3U, 0x13198A2E03707344U, 0xA4093822299F31D0U, 0x082EFA98EC4E6C89U};
};

}  // namespace tandem::gpu::cuda
