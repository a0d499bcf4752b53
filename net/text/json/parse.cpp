// simdjson's On-Demand finds the tokens and checks UTF-8; the walk below turns every one of them into a value.
//
// On-Demand checks only what is read and is generous at the edges, so three things are done here:
// - The text is copied between '[' and ']'. A bare scalar is then read like any other value, whatever is left over at
//   the end of the text meets that bracket, and the copy has the padding that simdjson reads beyond its input.
// - Nothing is skipped, depth is counted, numbers and words are compared in full, and the last token must be ours.
// - A string with a surrogate escape is decoded by our own unescape_json: simdjson has no U+FFFD for half a pair.
#include "net/text/json/parse.hpp"

#include "net/text/json/fault.hpp"
#include "net/text/json/tokens.hpp"

#include <fmt/format.h>
#include <simdjson.h>

#include <unordered_map>

namespace tandem::net::text {
namespace {

namespace ondemand = simdjson::ondemand;

// Objects above this size find repeated keys by hash, below it by comparing: schemas are small, vocabularies are not.
constexpr std::size_t linear_members_max = 16;

// A thread keeps the buffers of texts up to this size; those of a larger one are freed with it.
constexpr std::size_t kept_bytes_max = 1 << 20;

// What a thread reuses from text to text. simdjson's views point into it, so no value may keep one.
struct Workspace {
  ondemand::parser parser;
  std::string padded;
};

// The members of one object while it is read. A repeated key takes the last value and keeps the first place.
class Members {
 public:
  void place(JsonMember member) {
    if (Json* present = find(member.key)) {
      *present = std::move(member.value);
      return;
    }
    if (members_.size() >= linear_members_max) index_.emplace(member.key, members_.size());
    members_.push_back(std::move(member));
  }

  JsonObject take() { return std::move(members_); }

 private:
  Json* find(const std::string& key) {
    if (members_.size() < linear_members_max) {
      for (JsonMember& member : members_) {
        if (member.key == key) return &member.value;
      }
      return nullptr;
    }
    if (index_.empty()) {
      for (std::size_t i = 0; i < members_.size(); ++i) index_.emplace(members_[i].key, i);
    }
    const auto found = index_.find(key);
    return found != index_.end() ? &members_[found->second].value : nullptr;
  }

  JsonObject members_;
  std::unordered_map<std::string, std::size_t> index_;  // empty while members_ is small
};

// Reads one text; every function answers whether the text was right so far.
class Reader {
 public:
  explicit Reader(Workspace& workspace) : parser_(workspace.parser), padded_(workspace.padded) {}

  bool read_document(std::string_view text, Json& out) {
    padded_.assign("[").append(text).append("]");
    const std::size_t bytes = padded_.size();
    padded_.append(simdjson::SIMDJSON_PADDING, ' ');
    ondemand::document document;
    ondemand::array only;
    if (parser_.iterate(padded_.data(), bytes, padded_.size()).get(document)) return false;
    if (document.get_array().get(only)) return false;
    std::size_t count = 0;
    for (auto item : only) {
      ondemand::value value;
      if (++count > 1 || item.get(value) || !read_value(value, out, 0)) return false;
    }
    return count == 1 && document.current_location().error() == simdjson::OUT_OF_BOUNDS;
  }

 private:
  bool read_value(ondemand::value& value, Json& out, int depth) {
    if (++values_ > json_values_max) return false;
    const std::string_view token = trimmed(value.raw_json_token());
    switch (token.front()) {
      case '{':
        return read_object(value, out, depth + 1);
      case '[':
        return read_array(value, out, depth + 1);
      case '"':
        return read_string(value, out);
      case 't':
        out = Json(true);
        return token == "true";
      case 'f':
        out = Json(false);
        return token == "false";
      case 'n':
        out = Json();
        return token == "null";
      default:
        return read_number(token, out);
    }
  }

  bool read_object(ondemand::value& value, Json& out, int depth) {
    ondemand::object object;
    if (depth > json_depth_max || value.get_object().get(object)) return false;
    Members members;
    for (auto item : object) {
      ondemand::field field;
      JsonMember member;
      if (std::move(item).get(field) || !read_key(field, member.key)) return false;
      if (!read_value(field.value(), member.value, depth)) return false;
      members.place(std::move(member));
    }
    out = Json(members.take());
    return true;
  }

  bool read_array(ondemand::value& value, Json& out, int depth) {
    ondemand::array array;
    if (depth > json_depth_max || value.get_array().get(array)) return false;
    JsonArray items;
    for (auto item : array) {
      ondemand::value element;
      if (item.get(element) || !read_value(element, items.emplace_back(), depth)) return false;
    }
    out = Json(std::move(items));
    return true;
  }

  bool read_string(ondemand::value& value, Json& out) {
    ondemand::raw_json_string raw;
    if (value.get_raw_json_string().get(raw)) return false;
    std::string text;
    if (!decode(content_of(raw), text, [&] { return value.get_string(); })) return false;
    out = Json(std::move(text));
    return true;
  }

  bool read_key(ondemand::field& field, std::string& out) {
    return decode(content_of(field.key()), out, [&] { return unescaped_key(field); });
  }

  // Later versions ask whether a broken surrogate becomes a replacement character; to us it is an error in all of them.
  template <class Field>
  static simdjson::simdjson_result<std::string_view> unescaped_key(Field& field) {
    if constexpr (requires { field.unescaped_key(false); }) {
      return field.unescaped_key(false);
    } else {
      return field.unescaped_key();
    }
  }

  // Decodes a string the cheapest way that is right for it; `unescape` is simdjson's own way.
  template <class Unescape>
  static bool decode(std::string_view content, std::string& out, Unescape unescape) {
    if (content.find('\\') == std::string_view::npos) {
      out.assign(content);
      return true;
    }
    const bool may_have_surrogate = content.find("\\ud") != std::string_view::npos ||  //
                                    content.find("\\uD") != std::string_view::npos;
    if (may_have_surrogate) return unescape_json(content, out);
    std::string_view decoded;
    if (unescape().get(decoded)) return false;
    out.assign(decoded);
    return true;
  }

  // Returns what stands between a string's quotes. The closing one exists: simdjson refuses the text otherwise.
  std::string_view content_of(ondemand::raw_json_string raw) const {
    const char* end_of_text = padded_.data() + padded_.size();
    const std::string_view rest(raw.raw(), static_cast<std::size_t>(end_of_text - raw.raw()));
    std::size_t quote = rest.find('"');
    while (is_escaped(rest, quote)) quote = rest.find('"', quote + 1);
    return rest.substr(0, quote);
  }

  // Returns whether an odd number of backslashes stands before `at`.
  static bool is_escaped(std::string_view text, std::size_t at) {
    std::size_t begin = at;
    while (begin > 0 && text[begin - 1] == '\\') --begin;
    return (at - begin) % 2 == 1;
  }

  static bool read_number(std::string_view token, Json& out) {
    const TokenScan scan = scan_number(token);
    if (!scan.is_whole() || scan.bytes != token.size()) return false;
    out = Json(JsonNumber{std::string(token)});
    return true;
  }

  // simdjson's raw token reaches to the next token and is never empty: white space behind it is cut.
  static std::string_view trimmed(std::string_view token) {
    return token.substr(0, token.find_last_not_of(" \n\r\t") + 1);
  }

  ondemand::parser& parser_;
  std::string& padded_;
  std::size_t values_ = 0;
};

Error refusal(std::string_view text) {
  const auto fault = find_fault(text);
  if (!fault) {
    return {ErrorCode::resource, "JSON text", fmt::format("{} bytes", text.size()),
            fmt::format("at most {} values, less than 4 GiB and memory to read it", json_values_max)};
  }
  std::string found = "the end of the text";
  if (fault->at < text.size()) {
    const auto byte = static_cast<unsigned char>(text[fault->at]);
    const bool is_printable = byte > 0x20 && byte < 0x7F;
    found = is_printable ? fmt::format("'{}'", text[fault->at]) : fmt::format("byte 0x{:02X}", byte);
  }
  return {ErrorCode::bad_format, fmt::format("byte {}", fault->at), std::move(found), fault->expected};
}

}  // namespace

Result<Json> parse_json(std::string_view text) {
  thread_local Workspace workspace;
  Json document;
  const bool is_read = Reader(workspace).read_document(text, document);
  if (workspace.padded.capacity() > kept_bytes_max) workspace = Workspace();
  if (!is_read) return refusal(text);
  return document;
}

bool is_json(std::string_view text) {
  return parse_json(text).has_value();
}

}  // namespace tandem::net::text
