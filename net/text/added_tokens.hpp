// The added tokens of a tokenizer file: markup and placeholders that no merge can produce.
//
// Only a raw prompt is searched for them; text that a user, a tool or a document wrote never is.
#pragma once

#include "net/text/token_id.hpp"

#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

namespace tandem::net::text {

struct AddedToken {
  TokenId id;
  std::string text;
};

class AddedTokens {
 public:
  // Texts must not be empty.
  explicit AddedTokens(std::vector<AddedToken> tokens);
  AddedTokens(AddedTokens&&) noexcept = default;  // no copies: by_text_ looks into tokens_
  AddedTokens& operator=(AddedTokens&&) noexcept = default;

  std::optional<TokenId> find(std::string_view text) const;
  bool contains(TokenId id) const noexcept { return id < is_added_.size() && is_added_[id]; }
  const std::vector<AddedToken>& all() const noexcept { return tokens_; }

  struct Match {
    std::size_t begin;  // byte offset in the text
    std::size_t bytes;
    TokenId id;
  };
  // Returns the leftmost added token at or after `from`, the longest of those that begin there.
  std::optional<Match> search(std::string_view text, std::size_t from) const;

 private:
  // A trie over the bytes of all texts; children are sorted by byte.
  struct Node {
    std::vector<std::pair<unsigned char, std::uint32_t>> children;
    std::optional<TokenId> token;
  };

  const std::uint32_t* child(std::uint32_t node, unsigned char byte) const noexcept;
  std::uint32_t child_or_new(std::uint32_t node, unsigned char byte);
  std::optional<Match> match_at(std::string_view text, std::size_t at) const;

  std::vector<AddedToken> tokens_;
  std::vector<Node> nodes_;
  std::vector<bool> is_added_;                             // by id
  std::unordered_map<std::string_view, TokenId> by_text_;  // views into tokens_
};

}  // namespace tandem::net::text
