// One sentence for both checks, so that clients can parse it.
#include "net/http/length_limit.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <variant>

namespace tandem::net::http {
namespace {

std::int64_t context_limit(const ApiContext& context) {
  return context.door.snapshot().engine.max_positions;
}

ApiError too_long(std::int64_t limit, const std::string& tokens, std::string_view param) {
  return {400,
          fmt::format("This model's maximum context length is {} tokens. However, your {} resulted in {} tokens.",
                      limit, param, tokens),
          std::string(param), "context_length_exceeded", 0};
}

std::size_t text_bytes(const text::Json* content) {
  if (content == nullptr) return 0;
  if (const std::string* text = content->if_string()) return text->size();
  std::size_t bytes = 0;
  if (content->if_array() != nullptr)
    for (const text::Json& part : *content->if_array())
      if (const text::Json* text = part.find("text"); text != nullptr && text->if_string() != nullptr)
        bytes += text->if_string()->size();
  return bytes;
}

}  // namespace

std::optional<ApiError> check_length(const ApiContext& context, std::size_t prompt_tokens, std::string_view param) {
  const std::int64_t limit = context_limit(context);
  if (limit <= 0 || static_cast<std::int64_t>(prompt_tokens) + 1 <= limit) return std::nullopt;
  return too_long(limit, std::to_string(prompt_tokens), param);
}

std::optional<ApiError> check_text(const ApiContext& context, std::size_t bytes, std::string_view param) {
  const std::int64_t limit = context_limit(context);
  const std::size_t tokens_min = bytes / std::max<std::size_t>(context.tokenizer.token_bytes_max(), 1);
  if (limit <= 0 || static_cast<std::int64_t>(tokens_min) < limit) return std::nullopt;
  return too_long(limit, fmt::format("at least {}", tokens_min), param);
}

std::size_t text_bytes_of_messages(const text::Json& body) {
  const text::Json* messages = body.find("messages");
  std::size_t bytes = 0;
  if (messages != nullptr && messages->if_array() != nullptr)
    for (const text::Json& message : *messages->if_array()) bytes += text_bytes(message.find("content"));
  return bytes;
}

std::size_t text_bytes_of(const text::WrittenPrompt& written) {
  std::size_t bytes = 0;
  for (const auto& segment : written.segments.all())
    if (const auto* plain = std::get_if<std::string>(&segment)) bytes += plain->size();
  return bytes;
}

}  // namespace tandem::net::http
