// A prompt before tokenisation: markup, plain text and images in order.
//
// The safety rule of the whole encoder lives here: markup enters a prompt only as a Markup value, so text that spells a
// marker stays text. Neighbouring texts are joined before they are cut into pieces; segment borders must not change
// ids.
#pragma once

#include "net/text/markup.hpp"
#include "net/text/request_error.hpp"
#include "net/text/tokenizer.hpp"

#include <stop_token>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace tandem::net::text {

// A picture's place: one image token; `url` is what the client gave (an address or a data: URL).
struct ImageSlot {
  std::string url;
};

using Segment = std::variant<Markup, std::string, ImageSlot>;

class SegmentList {
 public:
  void markup(Markup markup) { segments_.emplace_back(markup); }
  void image(std::string url) { segments_.emplace_back(ImageSlot{std::move(url)}); }
  // Joins with a text that stands directly before; an empty text adds nothing.
  void text(std::string_view text);

  const std::vector<Segment>& all() const noexcept { return segments_; }

 private:
  std::vector<Segment> segments_;
};

// Returns the prompt as one string, markup by its text: for people and tests, never to be tokenised.
std::string render(const SegmentList& segments);

// Returns the ids; some of them once `stop` asks to stop. Error: 400 if the prompt needs markup that this model's
// tokenizer lacks.
RequestResult<std::vector<TokenId>> tokenize(const SegmentList& segments, const Tokenizer& tokenizer,
                                             const std::stop_token& stop = {});

}  // namespace tandem::net::text
