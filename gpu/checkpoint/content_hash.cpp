// A walk over the tensors with a ruler: a piece begins at every multiple of the stride and may reach into the next
// tensor.
#include "gpu/checkpoint/content_hash.hpp"

#include <algorithm>
#include <cstring>
#include <vector>

namespace tandem::gpu {
namespace {

class Sampler {
 public:
  Sampler(const ContentSample& sample, std::uint64_t bytes_all)
      : piece_bytes_(sample.piece_bytes),
        stride_(std::max(sample.piece_bytes, (bytes_all + sample.pieces_max - 1) / sample.pieces_max)),
        buffer_(sample.piece_bytes) {}

  // Adds what the pieces cover of the next tensor.
  Result<void> add(ContentHash& hash, const TensorPlace& place) {
    const std::uint64_t begin = tensor_begin_;
    const std::uint64_t end = begin + place.entry->bytes;
    tensor_begin_ = end;
    while (piece_begin_ < end) {
      const std::uint64_t first = std::max(piece_begin_, begin);
      const std::uint64_t last = std::min(piece_begin_ + piece_bytes_, end);
      const auto bytes = std::span(buffer_).first(last > first ? last - first : 0);
      if (auto read = place.shard->read(*place.entry, first - begin, bytes); !read) return read;
      hash.add(bytes);
      if (piece_begin_ + piece_bytes_ > end) return {};
      piece_begin_ += stride_;
    }
    return {};
  }

 private:
  std::uint64_t piece_bytes_, stride_;
  std::uint64_t tensor_begin_ = 0;
  std::uint64_t piece_begin_ = 0;
  std::vector<std::byte> buffer_;
};

void add_header(ContentHash& hash, const TensorEntry& entry) {
  hash.add(entry.name);
  hash.add(static_cast<std::int64_t>(entry.dtype));
  hash.add(static_cast<std::int64_t>(entry.shape.size()));
  for (const std::int64_t side : entry.shape) hash.add(side);
}

}  // namespace

void ContentHash::add(std::span<const std::byte> bytes) noexcept {
  const auto length = static_cast<std::int64_t>(bytes.size());
  std::uint64_t word = 0;
  for (; bytes.size() >= sizeof word; bytes = bytes.subspan(sizeof word)) {
    std::memcpy(&word, bytes.data(), sizeof word);
    add_word(word);
  }
  word = 0;
  if (!bytes.empty()) std::memcpy(&word, bytes.data(), bytes.size());
  add_word(word);
  add(length);
}

Result<std::uint64_t> hash_content(const Checkpoint& checkpoint, const std::atomic<bool>* stop,
                                   const ContentSample& sample) {
  std::uint64_t bytes_all = 0;
  for (const auto& [name, place] : checkpoint.tensors()) bytes_all += place.entry->bytes;
  ContentHash hash;
  Sampler sampler(sample, bytes_all);
  for (const auto& [name, place] : checkpoint.tensors()) {
    if (stop != nullptr && stop->load())
      return Error{ErrorCode::cancelled, checkpoint.folder().string(), "stopped while loading", ""};
    add_header(hash, *place.entry);
    if (auto added = sampler.add(hash, place); !added) return added.error();
  }
  return hash.value();
}

}  // namespace tandem::gpu
