// OpenAI's older spelling of tools: `functions` and `function_call` become `tools` and `tool_choice`.
#pragma once

#include "net/text/json/value.hpp"
#include "net/text/request_error.hpp"

#include <optional>

namespace tandem::net::http {

// Rewrites a request object in place; nothing happens when `tools` is given. Returns what is wrong with the old fields:
// 400 `functions`, `function_call`. The shape of each function is judged later, in its new place.
std::optional<text::RequestError> translate_legacy_functions(text::Json& body);

}  // namespace tandem::net::http
