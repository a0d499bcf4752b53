// Reads the text of one tool tag, from behind the ｜DSML｜ marker to its '>'.
//
// A tag opens as `<｜DSML｜ NAME ...>` and closes as `</｜DSML｜ NAME>`; its name begins with a space. Nothing in it is
// escaped, so a name may hold '"' or '>': a tag with attributes ends at the first `">`.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace tandem::net::text {

enum class TagKind {
  calls_open,       // < calls>
  invoke_open,      // < invoke name="N">
  parameter_open,   // < parameter name="K" string="B">
  calls_close,      // </ calls>
  invoke_close,     // </ invoke>
  parameter_close,  // </ parameter>
  unknown           // any other; also one that is longer than it may be
};

struct Tag {
  TagKind kind = TagKind::unknown;
  std::string name;               // of an invoke or a parameter
  std::optional<bool> is_string;  // of a parameter, if the attribute is there and readable
};

class TagReader {
 public:
  // A tag that nobody knows is given up after so many bytes, one with a name later: a parameter's key may be long.
  static constexpr std::size_t unknown_bytes_max = 256;
  static constexpr std::size_t named_bytes_max = 4096;

  explicit TagReader(bool is_closer) : is_closer_(is_closer) {}

  // Takes one byte; returns the tag when it is complete.
  std::optional<Tag> push(char c);

  // Returns what has been read: a tag may be cut off by the next one.
  std::string_view text() const noexcept { return text_; }

 private:
  bool is_complete() const;
  Tag tag() const;

  bool is_closer_;
  std::string text_;
};

}  // namespace tandem::net::text
