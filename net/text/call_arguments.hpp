// The arguments of one call, from the model's parameters to JSON text, repaired where model and schema disagree about a
// type.
//
//   string="true"    a JSON string; if the schema excludes strings and the text is an admitted value: that value
//   string="false"   the text itself if it is valid JSON, else a JSON string; a string if only strings are admitted
//   no attribute     a string if the schema admits one or says nothing
//   repeated key     the first value stands
//   one parameter "arguments" or "input" that the schema lacks, holding an object of known keys: that object
//
// The text only grows: what take() returned never changes, and at the end the pieces joined are valid JSON. A value
// that a repair may still change is kept back until it is complete.
#pragma once

#include "net/text/json_types.hpp"
#include "net/text/tools.hpp"

#include <optional>
#include <string>
#include <string_view>
#include <unordered_set>

namespace tandem::net::text {

class CallArguments {
 public:
  // `tool` is the tool called, nullptr if it was not offered; it must outlive this.
  explicit CallArguments(const Tool* tool) : parameters_(tool == nullptr ? nullptr : tool->parameters()) {}

  // A parameter's value comes between begin() and end(), in any number of pieces of valid UTF-8.
  void begin(std::string key, std::optional<bool> is_string);
  void value(std::string_view text);
  void end();
  // No more parameters: closes the object.
  void finish();

  // Returns the text that is final and was not returned before.
  std::string take();

 private:
  struct Parameter {
    std::string key;
    std::string raw;  // empty while `is_streamed`
    bool is_string = true;
    bool is_dropped = false;
    bool is_streamed = false;  // a plain string: written as it comes
    bool may_be_wrapper = false;
  };

  const Json* properties() const noexcept;
  JsonTypes types_of(std::string_view key) const;
  bool may_be_wrapper(std::string_view key) const;
  bool is_wrapped_object(const Json& value) const;
  std::string value_json(const Parameter& parameter) const;
  void write_key(std::string_view key);
  void write(const Parameter& parameter);

  const Json* parameters_;
  std::unordered_set<std::string> keys_;
  Parameter current_;
  std::optional<Parameter> wrapper_;  // the first parameter, kept until it is known to be the only one
  bool is_open_ = false;              // '{' was written
  std::string ready_;
};

}  // namespace tandem::net::text
