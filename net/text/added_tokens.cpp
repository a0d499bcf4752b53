// Search by trie: at each position the deepest node with a token wins, so no text is compared with every token.
#include "net/text/added_tokens.hpp"

#include <algorithm>

namespace tandem::net::text {

AddedTokens::AddedTokens(std::vector<AddedToken> tokens) : tokens_(std::move(tokens)), nodes_(1) {
  for (const AddedToken& token : tokens_) {
    std::uint32_t node = 0;
    for (const char c : token.text) node = child_or_new(node, static_cast<unsigned char>(c));
    nodes_[node].token = token.id;
    if (is_added_.size() <= token.id) is_added_.resize(token.id + std::size_t{1});
    is_added_[token.id] = true;
    by_text_.emplace(token.text, token.id);
  }
}

std::optional<TokenId> AddedTokens::find(std::string_view text) const {
  const auto found = by_text_.find(text);
  return found == by_text_.end() ? std::nullopt : std::optional(found->second);
}

std::optional<AddedTokens::Match> AddedTokens::search(std::string_view text, std::size_t from) const {
  for (std::size_t at = from; at < text.size(); ++at) {
    if (auto match = match_at(text, at)) return match;
  }
  return std::nullopt;
}

std::optional<AddedTokens::Match> AddedTokens::match_at(std::string_view text, std::size_t at) const {
  std::optional<Match> longest;
  std::uint32_t node = 0;
  for (std::size_t end = at; end < text.size();) {
    const std::uint32_t* next = child(node, static_cast<unsigned char>(text[end]));
    if (next == nullptr) break;
    node = *next;
    ++end;
    if (nodes_[node].token) longest = Match{at, end - at, *nodes_[node].token};
  }
  return longest;
}

const std::uint32_t* AddedTokens::child(std::uint32_t node, unsigned char byte) const noexcept {
  const auto& children = nodes_[node].children;
  const auto found = std::lower_bound(children.begin(), children.end(), std::pair(byte, std::uint32_t{0}));
  return found != children.end() && found->first == byte ? &found->second : nullptr;
}

std::uint32_t AddedTokens::child_or_new(std::uint32_t node, unsigned char byte) {
  if (const std::uint32_t* present = child(node, byte)) return *present;
  const auto created = static_cast<std::uint32_t>(nodes_.size());
  nodes_.emplace_back();
  auto& children = nodes_[node].children;
  const std::pair entry(byte, created);
  children.insert(std::lower_bound(children.begin(), children.end(), entry), entry);
  return created;
}

}  // namespace tandem::net::text
