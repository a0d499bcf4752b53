// The stream keeps only the bytes of one unfinished character between calls.
#include "net/text/detokenizer.hpp"

#include "net/text/utf8.hpp"

namespace tandem::net::text {

void Utf8Stream::push(std::string_view bytes, std::string& out) {
  tail_ += bytes;
  std::string_view rest = tail_;
  while (!rest.empty()) {
    const Utf8Step step = read_utf8(rest);
    if (step.status == Utf8Status::incomplete) break;
    out += step.status == Utf8Status::complete ? rest.substr(0, step.bytes) : replacement_character;
    rest.remove_prefix(step.bytes);
  }
  tail_.erase(0, tail_.size() - rest.size());
}

void Utf8Stream::flush(std::string& out) {
  if (!tail_.empty()) out += replacement_character;
  tail_.clear();
}

std::string Detokenizer::push(TokenId id) {
  std::string out;
  const auto bytes = tokenizer_->token_bytes(id);
  if (bytes && (mode_ == AddedTokenText::written || !tokenizer_->is_added(id))) stream_.push(*bytes, out);
  return out;
}

std::string Detokenizer::finish(bool is_cut) {
  std::string out;
  if (is_cut) {
    stream_.drop_tail();
  } else {
    stream_.flush(out);
  }
  return out;
}

}  // namespace tandem::net::text
