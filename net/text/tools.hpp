// The tools that a request offers, and how the model may choose among them.
//
// A tool is kept as the JSON object whose text the model will read: keys in the order received, its name qualified by
// its namespace. Schemas are shown, looked up for repairs (call_arguments.hpp) and never judged here.
#pragma once

#include "net/text/json/value.hpp"
#include "net/text/request_error.hpp"

#include <string>
#include <string_view>
#include <vector>

namespace tandem::net::text {

struct Tool {
  std::string name;  // qualified: "ns::name"
  Json function;     // what the prompt shows: name, description, parameters, strict, ...
  bool is_strict = false;

  // Returns the schema of the parameters, or nullptr if the tool has none.
  const Json* parameters() const noexcept { return function.find_given("parameters"); }
};

struct ToolLimits {
  std::size_t tools_max = 512;
  std::size_t name_bytes_max = 128;
};

// Reads `tools`; null and [] are no tools. Errors: 400 `tools`: not an array, too many, not a function, a bad or
// repeated name, a namespace that contradicts the name.
RequestResult<std::vector<Tool>> read_tools(const Json* json, const ToolLimits& limits);

// Returns the tool of that qualified name, or nullptr.
const Tool* find_tool(const std::vector<Tool>& tools, std::string_view name) noexcept;

enum class ToolMode { none, automatic, required };

struct ToolChoice {
  ToolMode mode = ToolMode::none;
  std::vector<std::string> allowed;  // qualified names; empty: all
  bool is_named = false;             // one function by name: mode is required and `allowed` holds it
};

// Reads `tool_choice`: "auto" (default with tools), "none" (default without), "required", a function by name, or
// allowed_tools. Errors: 400 `tool_choice`: unknown form or name, required or named without tools.
RequestResult<ToolChoice> read_tool_choice(const Json* json, const std::vector<Tool>& tools);

}  // namespace tandem::net::text
