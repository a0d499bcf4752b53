// ContentHash: one number that tells whether two ranks hold the same thing. Not made against anybody who wants two
// contents to look alike: a stale copy or another model is what it finds.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "gpu/checkpoint/checkpoint.hpp"

namespace tandem::gpu {

// 64-bit FNV-1a over words of eight bytes, folded so that high bits reach low ones.
class ContentHash {
 public:
  // What is added is closed by its length: ("a", "bc") and ("ab", "c") differ.
  void add(std::span<const std::byte> bytes) noexcept;
  void add(std::string_view text) noexcept { add(std::as_bytes(std::span(text))); }
  void add(std::int64_t value) noexcept { add_word(static_cast<std::uint64_t>(value)); }
  std::uint64_t value() const noexcept { return state_; }

 private:
  void add_word(std::uint64_t word) noexcept {
    state_ = (state_ ^ word) * 0x100000001B3;
    state_ ^= state_ >> 32;
  }

  std::uint64_t state_ = 0xCBF29CE484222325;
};

// How much of a checkpoint is read: the tensors, laid end to end in the order of their names, give one piece every so
// many bytes. 64 MiB in all: a small checkpoint is read whole, of a large one every shard gives pieces.
struct ContentSample {
  std::uint64_t pieces_max = 4096;
  std::uint64_t piece_bytes = 16'384;
};

// Returns a number over name, type and shape of every tensor, Engram tables included, and over the sampled bytes. It
// depends on the content alone: not on the rank, the folder or how tensors are spread over shards. Errors: io,
// cancelled (`stop`, which may be null, became true).
Result<std::uint64_t> hash_content(const Checkpoint& checkpoint, const std::atomic<bool>* stop,
                                   const ContentSample& sample = {});

}  // namespace tandem::gpu
