// Text to token ids and back, by one model's tokenizer.json. Immutable after loading: share it const between all
// threads.
//
// Three ways in, which differ only in what counts as markup:
//   encode      plain text; nothing in it is markup (whatever a user, tool or document wrote)
//   encode_raw  a prompt written by an expert; added tokens are recognised wherever they are spelled
//   prompts     of chat: see segments.hpp, which joins markup and plain text
//
// A text may hold megabytes and take a minute. Each way in takes a stop token: once it is asked to stop, it returns
// within milliseconds, with some of the ids only.
#pragma once

#include "engram/error.hpp"
#include "net/text/added_tokens.hpp"
#include "net/text/bpe.hpp"
#include "net/text/markup.hpp"
#include "net/text/tokenizer_file.hpp"

#include <filesystem>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

namespace tandem::net::text {

enum class AddedTokenText { left_out, written };

class Tokenizer {
 public:
  // Errors: io or not_found (the file), bad_format / mismatch / not_found / out_of_range with file and field.
  static Result<Tokenizer> load(const std::filesystem::path& file);
  // As load(), from the file's text; `name` stands for the file in errors.
  static Result<Tokenizer> from_json(std::string_view text, const std::string& name);

  std::vector<TokenId> encode(std::string_view plain) const;
  // Appends instead of returning.
  void encode_to(std::string_view plain, std::vector<TokenId>& out, const std::stop_token& stop = {}) const;
  std::vector<TokenId> encode_raw(std::string_view prompt, const std::stop_token& stop = {}) const;

  // Returns the bytes of the ids, cleaned up in no way: they may begin or end inside a character.
  // Error: out_of_range for an id that the vocabulary does not have.
  Result<std::string> decode(std::span<const TokenId> ids, AddedTokenText mode = AddedTokenText::left_out) const;

  // One past the highest id; may be smaller than the model's logits.
  std::size_t vocabulary_size() const noexcept { return bytes_of_token_.size(); }
  // Returns what one id stands for (an added token: its text); nullopt if there is no such id.
  std::optional<std::string_view> token_bytes(TokenId id) const noexcept;
  bool is_added(TokenId id) const noexcept { return added_.contains(id); }
  std::optional<TokenId> find_added(std::string_view text) const { return added_.find(text); }

  std::optional<TokenId> id(Markup markup) const noexcept { return markup_.id(markup); }
  std::optional<Markup> markup(TokenId id) const noexcept { return is_added(id) ? markup_.markup(id) : std::nullopt; }

  // Bytes of the longest vocabulary entry: a text of more than this times n bytes has more than n tokens.
  std::size_t token_bytes_max() const noexcept { return token_bytes_max_; }

 private:
  Tokenizer(TokenizerTables tables, MarkupIds markup);

  std::vector<std::optional<std::string>> bytes_of_token_;
  AddedTokens added_;
  MarkupIds markup_;
  BytePairEncoder pairs_;
  std::size_t token_bytes_max_ = 0;
};

}  // namespace tandem::net::text
