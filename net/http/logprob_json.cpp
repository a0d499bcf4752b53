// A token's text may be half a character: `token` shows U+FFFD then, `bytes` are exact.
#include "net/http/logprob_json.hpp"

#include "net/http/json_writer.hpp"
#include "net/text/detokenizer.hpp"

namespace tandem::net::http {
namespace {

void add_token(JsonWriter& json, gpu::TokenId id, float logprob, const text::Tokenizer& tokenizer) {
  const std::string_view bytes = tokenizer.token_bytes(static_cast<text::TokenId>(id)).value_or("");
  std::string visible;
  text::Utf8Stream stream;
  stream.push(bytes, visible);
  stream.flush(visible);
  json.key("token").string(visible).key("bytes").begin_array();
  for (const char byte : bytes) json.integer(static_cast<int>(static_cast<unsigned char>(byte)));
  json.end_array().key("logprob").number(logprob);
}

}  // namespace

void append_logprob(std::string& list, const gpu::SampledToken& token, const text::Tokenizer& tokenizer) {
  JsonWriter json;
  json.begin_object();
  add_token(json, token.id, token.logprob, tokenizer);
  json.key("top_logprobs").begin_array();
  for (const gpu::TokenLogprob& other : token.top) {
    json.begin_object();
    add_token(json, other.id, other.logprob, tokenizer);
    json.end_object();
  }
  json.end_array().end_object();
  if (!list.empty()) list += ',';
  list += json.text();
}

}  // namespace tandem::net::http
