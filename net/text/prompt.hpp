// Turns to prompt: DeepSeek-V4.1's conversation format as its published encoder writes it, with answers where that has
// none.
//
//   BOS  [System]  effort line  then each turn:
//     system            [System] (not before the first turn, it stands there already)  text  tools block  schema block
//     user              [User] blocks joined by blank lines; a result is <tool_result>text</tool_result>, in plain text
//     latest_reminder   [latest_reminder] text
//     assistant         reasoning </think>  text  calls  EOS
//   and between a turn and an assistant turn, or at the end, a header:  [Assistant] <think> or </think>
//
// The header follows the turn before, so an assistant turn begins with its reasoning. Reasoning is written when
// thinking is on and the turn belongs to the current round (after the last user turn), or all of it must stay.
#pragma once

#include "net/text/conversation.hpp"
#include "net/text/response_format.hpp"
#include "net/text/segments.hpp"
#include "net/text/thinking.hpp"
#include "net/text/tools.hpp"

#include <vector>

namespace tandem::net::text {

// In which state the output parser begins: the model continues a reasoning, or writes content at once.
enum class ParserStart { reasoning, content };

struct PromptSource {
  const std::vector<Turn>& turns;
  const std::vector<Tool>& tools;
  const ResponseFormat& format;
  const Thinking& thinking;
  bool is_continuation = false;  // the last turn is an assistant turn that goes on: no EOS, no header
};

struct WrittenPrompt {
  SegmentList segments;
  ParserStart start = ParserStart::content;
};

WrittenPrompt write_prompt(const PromptSource& source);

}  // namespace tandem::net::text
