// Byte-pair encoding of one piece: start from single bytes, merge the pair of lowest rank until no pair is left.
//
// In a long piece the pairs wait in a heap and the symbols in a linked list, so n bytes cost O(n log n): pieces of a
// megabyte exist (a line of "="). Ties go to the leftmost pair. Short pieces repeat all the time and are remembered in
// a bounded cache. Encoding is const and may run on any number of threads; the cache is the only shared state and locks
// by shard.
#pragma once

#include "net/text/token_id.hpp"

#include <array>
#include <cstdint>
#include <memory>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

namespace tandem::net::text {

// What the merge of two neighbouring tokens gives.
struct Merge {
  std::uint32_t rank;  // position in the file's list; lower merges first
  TokenId result;
};

// The merge rules: an open-addressing hash table from a pair of ids to its merge. Filled once, then only read.
class MergeTable {
 public:
  explicit MergeTable(std::size_t rules_max);

  // Adds a rule; a pair that is already there keeps its first, lower rank.
  void insert(TokenId left, TokenId right, Merge merge);
  // Returns the pair's merge, or nullptr.
  const Merge* find(TokenId left, TokenId right) const noexcept;

 private:
  struct Slot {
    std::uint64_t key = empty_key;
    Merge merge{};
  };
  static constexpr std::uint64_t empty_key = ~std::uint64_t{0};

  std::size_t slot_of(std::uint64_t key) const noexcept;

  std::vector<Slot> slots_;  // a power of two, at most half full
};

class PieceCache;

class BytePairEncoder {
 public:
  // `byte_tokens[b]` is the token of the single byte b.
  BytePairEncoder(std::array<TokenId, 256> byte_tokens, MergeTable merges);
  BytePairEncoder(BytePairEncoder&&) noexcept;
  BytePairEncoder& operator=(BytePairEncoder&&) noexcept;
  ~BytePairEncoder();

  // Appends the tokens of one piece; after a stop of a long one, its merges are incomplete.
  void encode(std::string_view piece, std::vector<TokenId>& out, const std::stop_token& stop = {}) const;
  // As encode(), always by heap and linked list: the way of long pieces, and the reference for the short ones.
  void merge_long(std::string_view piece, std::vector<TokenId>& out, const std::stop_token& stop = {}) const;

 private:
  std::array<TokenId, 256> byte_tokens_;
  MergeTable merges_;
  std::unique_ptr<PieceCache> cache_;
};

}  // namespace tandem::net::text
