// The table of texts, in the order of the enum.
#include "net/text/markup.hpp"

#include <string>

namespace tandem::net::text {
namespace {

constexpr std::array<std::string_view, markup_count> texts = {
    "<｜begin▁of▁sentence｜>",
    "<｜end▁of▁sentence｜>",
    "<｜System｜>",
    "<｜User｜>",
    "<｜Assistant｜>",
    "<think>",
    "</think>",
    "｜DSML｜",
    "<｜latest_reminder｜>",
    "<｜action｜>",
    "<｜query｜>",
    "<｜authority｜>",
    "<｜domain｜>",
    "<｜title｜>",
    "<｜read_url｜>",
    "<｜deepseek_image｜>",
    "<｜fim▁begin｜>",
    "<｜fim▁hole｜>",
    "<｜fim▁end｜>",
};

}  // namespace

std::string_view markup_text(Markup markup) noexcept {
  return texts[static_cast<std::size_t>(markup)];
}

Result<MarkupIds> MarkupIds::find(const AddedTokens& tokens) {
  MarkupIds found;
  for (std::size_t i = 0; i < markup_count; ++i) {
    found.ids_[i] = tokens.find(texts[i]);
    if (!found.ids_[i] && i < markup_required_count) {
      return Error{ErrorCode::not_found, "added_tokens", "no token with this text", std::string(texts[i])};
    }
  }
  return found;
}

std::optional<Markup> MarkupIds::markup(TokenId id) const noexcept {
  for (std::size_t i = 0; i < markup_count; ++i) {
    if (ids_[i] == id) return static_cast<Markup>(i);
  }
  return std::nullopt;
}

}  // namespace tandem::net::text
