// One mutex a shard; the copy out happens under it, since a full shard forgets its entries.
#include "net/text/piece_cache.hpp"

namespace tandem::net::text {

bool PieceCache::find(std::string_view piece, std::vector<TokenId>& out) const {
  const Shard& shard = shards_[shard_of(piece)];
  const std::lock_guard lock(shard.mutex);
  const auto found = shard.pieces.find(piece);
  if (found == shard.pieces.end()) return false;
  out.insert(out.end(), found->second.begin(), found->second.end());
  return true;
}

void PieceCache::store(std::string_view piece, const TokenId* tokens, std::size_t count) {
  Shard& shard = shards_[shard_of(piece)];
  const std::lock_guard lock(shard.mutex);
  if (shard.pieces.size() >= shard_pieces_max) shard.pieces.clear();
  shard.pieces.emplace(std::string(piece), std::vector<TokenId>(tokens, tokens + count));
}

}  // namespace tandem::net::text
