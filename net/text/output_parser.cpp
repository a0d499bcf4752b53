// Sorts ids into text, steering markers, ends and the rest.
#include "net/text/output_parser.hpp"

#include <algorithm>
#include <utility>

namespace tandem::net::text {
namespace {

// A turn ends at EOS, and where the model begins somebody else's turn.
bool ends_turn(Markup markup) {
  return markup == Markup::eos || markup == Markup::user || markup == Markup::system || markup == Markup::assistant ||
         markup == Markup::bos;
}

}  // namespace

OutputParser::OutputParser(const Tokenizer& tokenizer, OutputOptions options)
    : tokenizer_(&tokenizer),
      stop_token_ids_(std::move(options.stop_token_ids)),
      ignores_end_of_turn_(options.ignores_end_of_turn),
      turn_(std::move(options.turn)) {}

Events OutputParser::feed(TokenId id) {
  Events out;
  if (has_ended()) return out;
  if (std::find(stop_token_ids_.begin(), stop_token_ids_.end(), id) != stop_token_ids_.end()) {
    saw_end_ = true;
    return out;
  }
  const bool is_special = tokenizer_->is_added(id);
  const auto markup = is_special ? tokenizer_->markup(id) : std::nullopt;
  if (markup && ends_turn(*markup) && !ignores_end_of_turn_) {
    saw_end_ = true;
    return out;
  }
  if (turn_.is_reasoning() && markup != Markup::think_close) ++reasoning_tokens_;
  if (is_special) {
    feed_special(markup, out);
  } else if (const auto bytes = tokenizer_->token_bytes(id)) {
    feed_text(*bytes, out);
  }
  return out;
}

void OutputParser::feed_text(std::string_view bytes, Events& out) {
  std::string text;
  utf8_.push(bytes, text);
  turn_.text(text, out);
}

void OutputParser::feed_special(std::optional<Markup> markup, Events& out) {
  end_character(out);
  if (markup == Markup::think_close) return turn_.think_close(out);
  if (markup == Markup::dsml) return turn_.dsml(out);
  turn_.other_marker(out);
}

// A character cannot go on behind a special token.
void OutputParser::end_character(Events& out) {
  std::string text;
  utf8_.flush(text);
  turn_.text(text, out);
}

Events OutputParser::finish(EndCause cause) {
  Events out;
  const bool is_cut = cause == EndCause::length && !saw_end_;
  if (!is_cut) end_character(out);
  turn_.finish(is_cut ? EndCause::length : EndCause::end_of_turn, out);
  return out;
}

}  // namespace tandem::net::text
