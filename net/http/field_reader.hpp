// FieldReader: takes typed, range-checked values out of a request object and remembers the first thing that was wrong.
//
// null counts as absent. Integers may be written as 1.0; strings are never numbers. Nothing is clamped.
#pragma once

#include "net/text/json/value.hpp"
#include "net/text/request_error.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace tandem::net::http {

struct IntegerRange {
  std::int64_t low;
  std::int64_t high;
};

struct NumberRange {
  double low;
  double high;
  bool excludes_low = false;
};

class FieldReader {
 public:
  // `prefix` stands before field names in errors, e.g. "stream_options.".
  explicit FieldReader(const text::Json& object, std::string prefix = "")
      : object_(&object), prefix_(std::move(prefix)) {}

  std::optional<bool> boolean(std::string_view name);
  std::optional<std::int64_t> integer(std::string_view name, IntegerRange range);
  std::optional<double> number(std::string_view name, NumberRange range);
  std::optional<std::string> string(std::string_view name);
  // Returns the value if it is an object; another type is an error.
  const text::Json* object(std::string_view name);
  const text::Json* array(std::string_view name);
  const text::Json* any(std::string_view name) const { return object_->find_given(name); }

  void fail(text::RequestError error) {
    if (!error_) error_ = std::move(error);
  }
  const std::optional<text::RequestError>& error() const noexcept { return error_; }
  std::string path(std::string_view name) const { return prefix_ + std::string(name); }

 private:
  const text::Json* object_;
  std::string prefix_;
  std::optional<text::RequestError> error_;
};

// Returns the integer that a JSON number's text stands for ("3", "3.0", "3e2"), or nullopt if it is none or beyond 64
// bits.
std::optional<std::int64_t> to_integer(std::string_view number);
// Returns the nearest double; infinite beyond its range.
double to_double(std::string_view number);

}  // namespace tandem::net::http
