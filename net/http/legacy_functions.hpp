// OpenAI's older spelling of tools: `functions` and `function_call` become `tools` and `tool_choice`.
#pragma once

#include "net/text/json/value.hpp"

namespace tandem::net::http {

// Rewrites a request object in place. Nothing happens when `tools` is given; shapes are judged later, in their new
// place.
void translate_legacy_functions(text::Json& body);

}  // namespace tandem::net::http
