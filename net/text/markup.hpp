// The special tokens that a prompt or an answer is built from, by name. Their ids come from the tokenizer file, by
// their text.
//
// Texts as published with DeepSeek-V4.1 (the bar is U+FF5C, the block U+2581).
#pragma once

#include "engram/error.hpp"
#include "net/text/added_tokens.hpp"

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

namespace tandem::net::text {

enum class Markup : std::uint8_t {
  bos,
  eos,
  system,
  user,
  assistant,
  think_open,
  think_close,
  dsml,  // the marker inside every tool tag
  latest_reminder,
  action,
  query,
  authority,
  domain,
  title,
  read_url,
  image,
  fim_begin,
  fim_hole,
  fim_end,
};

inline constexpr std::size_t markup_count = static_cast<std::size_t>(Markup::fim_end) + 1;
// A tokenizer without one of the first eight, bos to dsml, cannot serve chat.
inline constexpr std::size_t markup_required_count = static_cast<std::size_t>(Markup::dsml) + 1;

std::string_view markup_text(Markup markup) noexcept;

// The ids of one tokenizer's markup.
class MarkupIds {
 public:
  // Error: not_found, naming the first required text that is no added token.
  static Result<MarkupIds> find(const AddedTokens& tokens);

  // Returns nullopt if the tokenizer lacks it; never for the required ones.
  std::optional<TokenId> id(Markup markup) const noexcept { return ids_[static_cast<std::size_t>(markup)]; }
  std::optional<Markup> markup(TokenId id) const noexcept;

 private:
  std::array<std::optional<TokenId>, markup_count> ids_;
};

}  // namespace tandem::net::text
