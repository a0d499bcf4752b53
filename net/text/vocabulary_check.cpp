// The largest id, then the three tokens that both files name.
#include "net/text/vocabulary_check.hpp"

#include <fmt/format.h>

namespace tandem::net::text {
namespace {

constexpr std::string_view pad_text = "<｜▁pad▁｜>";

struct NamedToken {
  const char* field;
  TokenId in_model;
  std::optional<TokenId> in_tokenizer;
};

}  // namespace

Result<void> check_vocabulary(const Tokenizer& tokenizer, const ModelTokens& model, const std::string& folder) {
  if (tokenizer.vocabulary_size() > model.vocab_size) {
    return Error{ErrorCode::mismatch, folder + "/tokenizer.json", fmt::format("id {}", tokenizer.vocabulary_size() - 1),
                 fmt::format("ids below the model's vocab_size {}", model.vocab_size)};
  }
  for (const NamedToken& token : {NamedToken{"bos_token_id", model.bos, tokenizer.id(Markup::bos)},
                                  NamedToken{"eos_token_id", model.eos, tokenizer.id(Markup::eos)},
                                  NamedToken{"pad_token_id", model.pad, tokenizer.find_added(pad_text)}}) {
    if (!token.in_tokenizer || *token.in_tokenizer == token.in_model) continue;
    return Error{ErrorCode::mismatch, fmt::format("{}/config.json: {}", folder, token.field),
                 std::to_string(token.in_model), fmt::format("{}, as in tokenizer.json", *token.in_tokenizer)};
  }
  return {};
}

}  // namespace tandem::net::text
