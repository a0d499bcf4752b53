// Reads tokenizer.json into tables, and refuses every file that means something else than what net/text implements.
//
// Checked: byte-level BPE without unknown token, dropout or fallback; an empty normaliser; the three isolated splits of
// pretokenizer.hpp followed by ByteLevel; a token for each byte; merges whose parts and result are entries; ids that do
// not clash.
#pragma once

#include "engram/error.hpp"
#include "net/text/added_tokens.hpp"
#include "net/text/bpe.hpp"

#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tandem::net::text {

struct TokenizerTables {
  // What each id decodes to; nullopt for an id between others that the file does not define. Added tokens have their
  // text here.
  std::vector<std::optional<std::string>> bytes_of_token;
  std::array<TokenId, 256> byte_tokens{};
  MergeTable merges{0};
  AddedTokens added{{}};
};

// `name` is what error messages call the file. Errors: bad_format (not JSON, wrong type), mismatch (a different kind of
// tokenizer), not_found (a missing field, byte or merge part), out_of_range (an id); `where` names file and field.
Result<TokenizerTables> read_tokenizer(std::string_view text, const std::string& name);

}  // namespace tandem::net::text
