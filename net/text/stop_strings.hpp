// Stop strings: texts at which the visible answer ends.
//
// They are matched on text, across tokens. Output is held back only as far as its tail could still become a stop
// string, and the match is the one that completes first, so cutting the text into other pieces never changes the
// result.
#pragma once

#include "net/text/json/value.hpp"
#include "net/text/request_error.hpp"

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tandem::net::text {

inline constexpr std::size_t stop_strings_max = 16;
inline constexpr std::size_t stop_bytes_max = 256;

// Reads `stop`: null, a string, or an array of strings. `param` names it in errors. Error: 400 for an empty or overlong
// string or too many of them.
RequestResult<std::vector<std::string>> read_stop(const Json* json, const std::string& param);

class StopFilter {
 public:
  StopFilter(std::vector<std::string> stops, bool includes_match)
      : stops_(std::move(stops)), includes_match_(includes_match) {}

  // Takes text and returns what may be shown. After a match everything is swallowed.
  std::string push(std::string_view text);
  // Returns what was held back: nothing will follow that could complete it.
  std::string release();

  // The string that ended the text, once one did.
  const std::optional<std::string>& matched() const noexcept { return matched_; }

 private:
  std::size_t held_bytes() const;

  std::vector<std::string> stops_;
  bool includes_match_;
  std::string pending_;  // text not yet shown; between calls a proper prefix of some stop string
  std::optional<std::string> matched_;
};

}  // namespace tandem::net::text
