// ConfigFields: typed, range-checked access to one object of config.json, so that reading a configuration is a list of
// lines.
//
// The first fault wins: later reads return their lower bound or fallback, and error() tells what was wrong. Integers
// must be JSON integers; numbers may be either; null counts as absent.
#pragma once

#include <boost/json/object.hpp>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engram/error.hpp"

namespace tandem::gpu {

// Inclusive limits of an integer field.
struct IntRange {
  std::int64_t low = 0;
  std::int64_t high = 0;
};

class ConfigFields {
 public:
  // `object` must outlive this; `where` is the file, `section` the path of the object inside it ("" = the root).
  ConfigFields(const boost::json::object& object, std::string where, std::string section);

  bool has(std::string_view key) const;

  int integer(std::string_view key, IntRange range);
  int integer_or(std::string_view key, int fallback, IntRange range);
  std::int64_t long_integer(std::string_view key, IntRange range);
  // Each element within `range`, at most `most` of them.
  std::vector<int> integers(std::string_view key, IntRange range, std::size_t most);
  std::vector<std::int64_t> long_integers(std::string_view key, IntRange range, std::size_t most);
  // Finite numbers within [low, high].
  double number(std::string_view key, double low, double high);
  double number_or(std::string_view key, double fallback, double low, double high);
  // The value must be exactly this: a choice of the architecture that has one implementation.
  void require(std::string_view key, std::string_view text);
  void require_flag(std::string_view key, bool flag);
  std::string text(std::string_view key);
  // The object under `key`, or null (a fault is recorded if it is absent or not an object).
  const boost::json::object* object(std::string_view key);

  // Records a fault of this section found by the caller.
  void fail(std::string_view key, std::string found, std::string expected);
  const std::optional<Error>& error() const noexcept { return error_; }
  // Takes over another section's fault unless there is one already.
  void adopt(const ConfigFields& other);

 private:
  const boost::json::value* find(std::string_view key);  // records a fault if absent
  std::int64_t checked(std::string_view key, const boost::json::value& value, IntRange range);

  const boost::json::object& object_;
  std::string where_;
  std::string section_;
  std::optional<Error> error_;
};

}  // namespace tandem::gpu
