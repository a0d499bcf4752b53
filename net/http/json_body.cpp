// Parsing is net/text's, which lets the last of repeated members win; the check for those is a scan over text that is
// known to be valid JSON.
#include "net/http/json_body.hpp"

#include "net/text/json/parse.hpp"

#include <fmt/format.h>
#include <malloc.h>

#include <string>
#include <unordered_set>
#include <utility>

namespace tandem::net::http {
namespace {

text::RequestError invalid_json(std::string message) {
  return {400, "", "invalid_json", std::move(message)};
}

// Returns the index of the closing quote of the string that opens at `open`.
std::size_t closing_quote(std::string_view json, std::size_t open) {
  std::size_t i = open + 1;
  while (i < json.size() && json[i] != '"') i += json[i] == '\\' ? 2 : 1;
  return i;
}

// Returns the name that `quoted` means: with escapes, one name can be written in many ways.
std::string member_name(std::string_view quoted) {
  if (quoted.find('\\') == std::string_view::npos) return std::string(quoted.substr(1, quoted.size() - 2));
  const auto name = text::parse_json(quoted);
  return name && name->if_string() != nullptr ? *name->if_string() : std::string(quoted);
}

}  // namespace

std::optional<std::string> find_repeated_member(std::string_view object) {
  std::unordered_set<std::string> seen;
  std::string_view last_string;  // with its quotes
  int depth = 0;
  for (std::size_t i = 0; i < object.size(); ++i) {
    const char c = object[i];
    if (c == '"') {
      const std::size_t close = closing_quote(object, i);
      last_string = object.substr(i, close + 1 - i);
      i = close;
    } else if (c == '{' || c == '[') {
      ++depth;
    } else if (c == '}' || c == ']') {
      --depth;
    } else if (c == ':' && depth == 1) {
      const auto [name, is_new] = seen.insert(member_name(last_string));
      if (!is_new) return *name;
    }
  }
  return std::nullopt;
}

void return_memory(std::size_t body_bytes) {
  constexpr std::size_t large = 4 * 1024 * 1024;
  if (body_bytes >= large) ::malloc_trim(0);
}

text::RequestResult<text::Json> parse_body(std::string_view body) {
  if (body.starts_with("\xEF\xBB\xBF")) body.remove_prefix(3);  // a byte order mark
  if (body.empty()) return invalid_json("the request body is empty, expected a JSON object");
  auto json = text::parse_json(body);
  if (!json) {
    const bool is_too_much = json.error().code == ErrorCode::resource;
    return invalid_json(fmt::format("the request body {}: {}",
                                    is_too_much ? "holds more than can be read" : "is not valid JSON",
                                    json.error().message()));
  }
  if (json->if_object() == nullptr)
    return invalid_json(fmt::format("the request body must be a JSON object, found {}", json->type_name()));
  if (const auto repeated = find_repeated_member(body))
    return invalid_json(fmt::format("the field \"{}\" occurs twice", *repeated));
  return std::move(*json);
}

}  // namespace tandem::net::http
