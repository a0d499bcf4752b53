// Names of the finish reasons, as OpenAI clients read them.
#include "net/text/parser_events.hpp"

namespace tandem::net::text {

const char* to_string(FinishReason reason) noexcept {
  switch (reason) {
    case FinishReason::stop:
      return "stop";
    case FinishReason::length:
      return "length";
    case FinishReason::tool_calls:
      break;
  }
  return "tool_calls";
}

}  // namespace tandem::net::text
