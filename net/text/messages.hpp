// The messages of a chat request as plain data, read from the client's JSON with its shape checked.
//
// Roles are already reduced (developer is system, function is tool). Only shape is judged: an odd history (a result
// without its call, broken arguments) is accepted, because a transcript that another server spoiled must stay usable.
#pragma once

#include "net/text/json/value.hpp"
#include "net/text/request_error.hpp"

#include <optional>
#include <string>
#include <vector>

namespace tandem::net::text {

enum class Role { system, user, assistant, tool, latest_reminder };

struct ContentPart {
  bool is_image = false;
  std::string value;  // the text, or the image's address or data: URL
};

using Content = std::vector<ContentPart>;

struct ToolCall {
  std::string id;    // may be empty
  std::string name;  // qualified by its namespace: "ns::name"
  Json arguments;    // as received: an object, or a string that should hold one
};

// A quick instruction: the answer is one of the model's short forms instead of a chat turn.
enum class Task { action, query, authority, domain, title, read_url };

struct Message {
  Role role = Role::user;
  Content content;
  std::string reasoning;        // assistant
  std::vector<ToolCall> calls;  // assistant
  std::string tool_call_id;     // tool
  std::optional<Task> task;     // user
  bool is_prefix = false;       // assistant: `prefix` or `wo_eos`, the answer goes on from here
};

struct MessageOptions {
  bool accepts_images = false;
};

// Reads `messages`. Errors: 400 with param `messages`, `messages[i].role`, `messages[i].content`, ...
RequestResult<std::vector<Message>> read_messages(const Json& json, const MessageOptions& options);

// Reads a content value: null or absent, a string, or an array of parts. `param` names it in errors.
RequestResult<Content> read_content(const Json* json, const std::string& param, const MessageOptions& options);

// Returns "ns::name". `space` is the namespace value beside or inside a function: a string, {name, description} or
// absent. A name that is qualified already stays; if it contradicts `space`, or would hold "::" twice, nullopt.
std::optional<std::string> qualified_name(const std::string& name, const Json* space);

}  // namespace tandem::net::text
