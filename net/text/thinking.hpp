// Whether the model thinks before it answers, how hard, and for how long: every spelling that clients use, in one order
// of precedence.
//
// The effort is a line of text at the very front of the prompt, not a limit. Other serving stacks use other numbers for
// the words, so the table is configuration.
#pragma once

#include "net/text/json/value.hpp"
#include "net/text/request_error.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace tandem::net::text {

inline constexpr int effort_min = 1;
inline constexpr int effort_max = 100;

struct EffortWord {
  std::string word;
  int effort;
};

// Configuration: reasoning.default and reasoning.efforts.
struct ReasoningConfig {
  bool is_on_by_default = true;
  int default_effort = 75;
  std::vector<EffortWord> efforts = {{"minimal", 25}, {"low", 50},   {"medium", 62},
                                     {"high", 75},    {"xhigh", 90}, {"max", 100}};
};

struct Thinking {
  bool is_on = true;
  int effort = 75;                                 // effort_min..effort_max; meaningful only when on
  bool keeps_old_reasoning = false;                // chat_template_kwargs.drop_thinking: false
  std::optional<std::uint64_t> token_budget = {};  // reasoning tokens after which </think> is forced
};

// Reads the switches of a request body. On or off, first that is present: chat_template_kwargs.thinking /
// .enable_thinking, .thinking_mode, thinking.type, enable_thinking, reasoning.enabled, the default; an effort of "none"
// anywhere is off. Effort, first that is present: chat_template_kwargs.reasoning_effort, reasoning_effort,
// reasoning.effort, the default. Errors: 400 naming the field.
RequestResult<Thinking> read_thinking(const Json& body, const ReasoningConfig& config);

// Reads one effort value: a word of the table, an integer 1..100 or its decimal string. Error: 400 `reasoning_effort`.
RequestResult<int> read_effort(const Json& value, const ReasoningConfig& config);

}  // namespace tandem::net::text
