// What a prompt may measure: the context of the model that is loaded, told before minutes go into tokenising.
#pragma once

#include "net/http/api_context.hpp"
#include "net/http/error_body.hpp"
#include "net/text/json/value.hpp"
#include "net/text/prompt.hpp"

#include <cstddef>
#include <optional>
#include <string_view>

namespace tandem::net::http {

// The two checks return a 400 context_length_exceeded that names `param`. While no model is loaded everything passes:
// the actors refuse later.

// Counts tokens: the prompt and one token of the answer must fit.
std::optional<ApiError> check_length(const ApiContext& context, std::size_t prompt_tokens, std::string_view param);
// Counts bytes of plain text. No token is longer than B bytes: a text beyond B * limit bytes cannot fit.
std::optional<ApiError> check_text(const ApiContext& context, std::size_t bytes, std::string_view param);

// Returns the bytes of the contents of `messages`: a first look at a body that is cheap and never too high.
std::size_t text_bytes_of_messages(const text::Json& body);
// Returns the bytes of all plain text of a prompt.
std::size_t text_bytes_of(const text::WrittenPrompt& written);

}  // namespace tandem::net::http
