// Messages to turns: the one form in which a conversation can be written as a prompt.
//
// Results of tools become blocks of a user turn; neighbouring user and tool messages share one turn; results stand in
// the order of the calls that they answer. Nothing merges into a turn that carries a task.
#pragma once

#include "net/text/messages.hpp"

#include <optional>
#include <string>
#include <vector>

namespace tandem::net::text {

enum class TurnKind { system, user, assistant, latest_reminder };

// A part of a user turn: what the user wrote, or the result of one call.
struct Block {
  bool is_result = false;
  std::string call_id;  // of a result
  Content content;
};

struct Turn {
  TurnKind kind = TurnKind::user;
  std::vector<Block> blocks;    // user: in order; the other kinds: exactly one
  std::string reasoning;        // assistant
  std::vector<ToolCall> calls;  // assistant
  std::optional<Task> task;     // user
  bool is_prefix = false;       // assistant
};

// Returns the turns; with `needs_system` the first is a system turn, an empty one if the messages do not begin with
// one. Error: 400 `messages` if a latest_reminder is not followed by a user turn.
RequestResult<std::vector<Turn>> make_turns(std::vector<Message> messages, bool needs_system);

}  // namespace tandem::net::text
