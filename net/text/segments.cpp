// Joining, rendering and tokenising of segments.
#include "net/text/segments.hpp"

#include <fmt/format.h>

namespace tandem::net::text {

void SegmentList::text(std::string_view text) {
  if (text.empty()) return;
  if (!segments_.empty()) {
    if (std::string* last = std::get_if<std::string>(&segments_.back())) {
      *last += text;
      return;
    }
  }
  segments_.emplace_back(std::string(text));
}

std::string render(const SegmentList& segments) {
  std::string out;
  for (const Segment& segment : segments.all()) {
    if (const std::string* text = std::get_if<std::string>(&segment)) {
      out += *text;
    } else {
      const Markup* markup = std::get_if<Markup>(&segment);
      out += markup_text(markup != nullptr ? *markup : Markup::image);
    }
  }
  return out;
}

RequestResult<std::vector<TokenId>> tokenize(const SegmentList& segments, const Tokenizer& tokenizer,
                                             const std::stop_token& stop) {
  std::vector<TokenId> ids;
  for (const Segment& segment : segments.all()) {
    if (const std::string* text = std::get_if<std::string>(&segment)) {
      tokenizer.encode_to(*text, ids, stop);
      continue;
    }
    const Markup* named = std::get_if<Markup>(&segment);
    const Markup markup = named != nullptr ? *named : Markup::image;
    const auto id = tokenizer.id(markup);
    if (!id) return invalid_value("messages", fmt::format("this model has no token {}", markup_text(markup)));
    ids.push_back(*id);
  }
  return ids;
}

}  // namespace tandem::net::text
