// Two passes over the text: one counts values and finds duplicate keys, one builds the value. Headers are small;
// clarity wins.
#include "gpu/checkpoint/strict_json.hpp"

#include <fmt/format.h>

#include <boost/json/basic_parser_impl.hpp>
#include <boost/json/parse.hpp>
#include <cstdint>
#include <unordered_set>
#include <vector>

namespace tandem::gpu {
namespace {

namespace json = boost::json;
using error_code = boost::system::error_code;

// Parser events that count values, remember the keys of every open object, and stop at the first repetition or at the
// first value too many.
struct Inspector {
  static constexpr std::size_t max_object_size = SIZE_MAX;
  static constexpr std::size_t max_array_size = SIZE_MAX;
  static constexpr std::size_t max_key_size = SIZE_MAX;
  static constexpr std::size_t max_string_size = SIZE_MAX;

  std::vector<std::unordered_set<std::string>> open_objects;
  std::string key;        // the parts of a key that came so far
  std::string duplicate;  // set once: the repeated key
  std::size_t values_left = SIZE_MAX;
  bool has_too_many = false;

  bool count(error_code& ec) {
    has_too_many = values_left == 0;
    if (has_too_many) {
      ec = json::error::exception;  // any error stops the parser; `has_too_many` says which one it was
    } else {
      --values_left;
    }
    return !has_too_many;
  }
  bool on_object_begin(error_code& ec) { return open_objects.emplace_back(), count(ec); }
  bool on_object_end(std::size_t, error_code&) { return open_objects.pop_back(), true; }
  bool on_key_part(std::string_view part, std::size_t, error_code&) { return key.append(part), true; }
  bool on_key(std::string_view part, std::size_t, error_code& ec) {
    key.append(part);
    const bool is_first = open_objects.back().insert(key).second;
    if (!is_first) {
      duplicate = key;
      ec = json::error::exception;  // any error stops the parser; `duplicate` says which one it was
    }
    key.clear();
    return is_first;
  }
  bool on_document_begin(error_code&) { return true; }
  bool on_document_end(error_code&) { return true; }
  bool on_array_begin(error_code& ec) { return count(ec); }
  bool on_array_end(std::size_t, error_code&) { return true; }
  bool on_string_part(std::string_view, std::size_t, error_code&) { return true; }
  bool on_string(std::string_view, std::size_t, error_code& ec) { return count(ec); }
  bool on_number_part(std::string_view, error_code&) { return true; }
  bool on_int64(std::int64_t, std::string_view, error_code& ec) { return count(ec); }
  bool on_uint64(std::uint64_t, std::string_view, error_code& ec) { return count(ec); }
  bool on_double(double, std::string_view, error_code& ec) { return count(ec); }
  bool on_bool(bool, error_code& ec) { return count(ec); }
  bool on_null(error_code& ec) { return count(ec); }
  bool on_comment_part(std::string_view, error_code&) { return true; }
  bool on_comment(std::string_view, error_code&) { return true; }
};

}  // namespace

Result<json::object> parse_strict_json(std::string_view text, const std::string& where, std::size_t values_max) {
  json::basic_parser<Inspector> inspection{json::parse_options{}};
  inspection.handler().values_left = values_max;
  error_code ec;
  const std::size_t consumed = inspection.write_some(false, text.data(), text.size(), ec);
  if (inspection.handler().has_too_many) {
    return Error{ErrorCode::out_of_range, where, "too many values", fmt::format("at most {}", values_max)};
  }
  if (!inspection.handler().duplicate.empty() || ec == json::error::exception) {
    return Error{ErrorCode::bad_format, where, "key '" + inspection.handler().duplicate + "' twice in one object",
                 "unique keys"};
  }
  if (ec) {
    return Error{ErrorCode::bad_format, where, "byte " + std::to_string(consumed) + ": " + ec.message(), "valid JSON"};
  }
  json::value value = json::parse(json::string_view(text.data(), text.size()), ec);
  if (ec) return Error{ErrorCode::bad_format, where, ec.message(), "valid JSON"};
  if (!value.is_object()) return Error{ErrorCode::bad_format, where, "a JSON value that is not an object", "an object"};
  return std::move(value.get_object());
}

}  // namespace tandem::gpu
