// Puts the parts together: file -> tables, text -> pieces -> merges, ids -> bytes.
#include "net/text/tokenizer.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "engram/text_file.hpp"
#include "net/text/pretokenizer.hpp"

namespace tandem::net::text {
namespace {

constexpr std::uint64_t tokenizer_bytes_max = std::uint64_t{256} << 20;  // the released one has 8 MB

}  // namespace

Result<Tokenizer> Tokenizer::load(const std::filesystem::path& file) {
  const auto text = engram::read_text(file, tokenizer_bytes_max);
  if (!text) return text.error();
  return from_json(*text, file.string());
}

Result<Tokenizer> Tokenizer::from_json(std::string_view text, const std::string& name) {
  auto tables = read_tokenizer(text, name);
  if (!tables) return tables.error();
  const auto markup = MarkupIds::find(tables->added);
  if (!markup) {
    Error error = markup.error();
    error.where = fmt::format("{}: {}", name, error.where);
    return error;
  }
  return Tokenizer(std::move(*tables), *markup);
}

Tokenizer::Tokenizer(TokenizerTables tables, MarkupIds markup)
    : bytes_of_token_(std::move(tables.bytes_of_token)),
      added_(std::move(tables.added)),
      markup_(markup),
      pairs_(tables.byte_tokens, std::move(tables.merges)) {
  for (TokenId id = 0; id < bytes_of_token_.size(); ++id) {
    if (bytes_of_token_[id]) token_bytes_max_ = std::max(token_bytes_max_, bytes_of_token_[id]->size());
  }
}

std::vector<TokenId> Tokenizer::encode(std::string_view plain) const {
  std::vector<TokenId> ids;
  encode_to(plain, ids);
  return ids;
}

void Tokenizer::encode_to(std::string_view plain, std::vector<TokenId>& out, const std::stop_token& stop) const {
  PieceCursor pieces(plain);
  for (std::string_view piece = pieces.next(); !piece.empty() && !stop.stop_requested(); piece = pieces.next())
    pairs_.encode(piece, out, stop);
}

std::vector<TokenId> Tokenizer::encode_raw(std::string_view prompt, const std::stop_token& stop) const {
  std::vector<TokenId> ids;
  std::size_t at = 0;
  while (const auto match = added_.search(prompt, at)) {
    if (stop.stop_requested()) return ids;
    encode_to(prompt.substr(at, match->begin - at), ids, stop);
    ids.push_back(match->id);
    at = match->begin + match->bytes;
  }
  encode_to(prompt.substr(at), ids, stop);
  return ids;
}

Result<std::string> Tokenizer::decode(std::span<const TokenId> ids, AddedTokenText mode) const {
  std::string bytes;
  for (const TokenId id : ids) {
    const auto token = token_bytes(id);
    if (!token) {
      return Error{ErrorCode::out_of_range, "token id", fmt::format("{}", id),
                   fmt::format("an id of the vocabulary, below {}", vocabulary_size())};
    }
    if (mode == AddedTokenText::written || !is_added(id)) bytes += *token;
  }
  return bytes;
}

std::optional<std::string_view> Tokenizer::token_bytes(TokenId id) const noexcept {
  if (id >= bytes_of_token_.size() || !bytes_of_token_[id]) return std::nullopt;
  return *bytes_of_token_[id];
}

}  // namespace tandem::net::text
