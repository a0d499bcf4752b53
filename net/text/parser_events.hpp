// What the output parser tells a surface: pieces of reasoning, content and calls in order, then one finish.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace tandem::net::text {

enum class FinishReason { stop, length, tool_calls };

// Returns the reason as the API writes it: "stop", "length", "tool_calls".
const char* to_string(FinishReason reason) noexcept;

enum class EventKind {
  reasoning,   // text
  content,     // text
  call_begin,  // index, text = qualified function name
  call_args,   // index, text = the next piece of the arguments' JSON
  call_end,    // index; the call is complete and may be executed
  finish       // reason; exactly one, last
};

struct Event {
  EventKind kind = EventKind::content;
  std::string text;                          // never empty for reasoning, content and call_args
  std::size_t index = 0;                     // of the call: 0, 1, 2, ...
  FinishReason reason = FinishReason::stop;  // of finish
};

using Events = std::vector<Event>;

}  // namespace tandem::net::text
