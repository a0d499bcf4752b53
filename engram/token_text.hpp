// The text side of vocabulary compression: which spelling of a token decides its class.
//
// Tokens whose text differs only in case, accents, compatibility forms or the kind of blank share a class (" The",
// "the", "THE"). The rules are those of the model's reference, which builds them from the Hugging Face normalisers
// NFKC, NFD, StripAccents, Lowercase, Replace([ \t\r\n]+ -> " ") and Strip; a lone blank is protected from Strip, and a
// text that would vanish keeps its own spelling.
#pragma once

#include <string>
#include <string_view>

namespace tandem::engram {

// Returns the bytes that a token of a byte-level BPE vocabulary stands for: every character is mapped back from the
// printable byte alphabet; a token with any other character (a control token such as <｜User｜>) stands for its own
// UTF-8 text.
std::string bytes_of_token(std::string_view token);

// Returns the key that decides the class of `token` (raw vocabulary spelling): its normalised text, or `token` itself
// if it stands for a part of a UTF-8 sequence or contains U+FFFD. Requires valid UTF-8.
std::string compression_key(std::string_view token);

// Returns `text` (valid UTF-8) after the normalisation above; may be empty.
std::string normalise(std::string_view text);

}  // namespace tandem::engram
