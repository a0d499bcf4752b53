// Remembers the tokens of short pieces: words repeat, and a look-up is several times cheaper than merging again.
//
// Bounded: a shard that is full starts over, so an adversarial text costs time, never memory. Safe from any thread.
#pragma once

#include "net/text/token_id.hpp"

#include <array>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace tandem::net::text {

class PieceCache {
 public:
  // Longer pieces rarely repeat and are not kept.
  static constexpr std::size_t piece_bytes_max = 64;

  // Appends the piece's tokens to `out` and returns true if they are known.
  bool find(std::string_view piece, std::vector<TokenId>& out) const;
  void store(std::string_view piece, const TokenId* tokens, std::size_t count);

 private:
  // 64 shards of 2,048 pieces: at most 131,072 pieces, about 15 MB with typical words.
  static constexpr std::size_t shards = 64;
  static constexpr std::size_t shard_pieces_max = 2048;

  struct TransparentHash {
    using is_transparent = void;
    std::size_t operator()(std::string_view text) const noexcept { return std::hash<std::string_view>{}(text); }
  };

  struct Shard {
    mutable std::mutex mutex;
    std::unordered_map<std::string, std::vector<TokenId>, TransparentHash, std::equal_to<>> pieces;
  };

  // The high bits choose the shard: the map inside uses the low ones.
  static std::size_t shard_of(std::string_view piece) noexcept { return TransparentHash{}(piece) >> 58; }

  std::array<Shard, shards> shards_;
};

}  // namespace tandem::net::text
