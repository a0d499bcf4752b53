// The list of a tokenizer's tokens in id order, read from a tokenizer.json of the Hugging Face form.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "engram/error.hpp"

namespace tandem::engram {

// Returns the raw spelling of tokens 0, 1, 2, ...: model.vocab overlaid by added_tokens. `where` names the file in
// errors. Errors: bad_format (not JSON, not a byte-level BPE tokenizer, ids that are not 0..n-1).
Result<std::vector<std::string>> tokenizer_vocabulary(std::string_view tokenizer_json, const std::string& where);

}  // namespace tandem::engram
