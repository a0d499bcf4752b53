// Whether a tokenizer.json belongs to a model: asked once at the start, because every request would find out otherwise.
#pragma once

#include <string>

#include "engram/error.hpp"
#include "net/text/tokenizer.hpp"

namespace tandem::net::text {

// What the model's config.json says about its tokens.
struct ModelTokens {
  std::size_t vocab_size = 0;
  TokenId bos = 0, eos = 0, pad = 0;
};

// `folder` is the model's and names the files in errors. Errors: mismatch, naming a file and a field: an id that the
// model has no embedding for, or another begin, end or padding token. Fewer ids than embeddings are right.
Result<void> check_vocabulary(const Tokenizer& tokenizer, const ModelTokens& model, const std::string& folder);

}  // namespace tandem::net::text
