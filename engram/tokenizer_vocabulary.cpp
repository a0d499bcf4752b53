// Only what vocabulary compression needs is read: spellings and ids, and that the decoder is the byte-level one.
#include "engram/tokenizer_vocabulary.hpp"

#include <fmt/format.h>

#include <boost/json.hpp>
#include <map>

namespace tandem::engram {
namespace {

namespace json = boost::json;
using Spellings = std::map<std::int64_t, std::string>;

const json::object* object_at(const json::object& parent, std::string_view key) {
  const json::value* value = parent.if_contains(key);
  return value != nullptr ? value->if_object() : nullptr;
}

bool has_type(const json::object& object, std::string_view name) {
  const json::value* type = object.if_contains("type");
  return type != nullptr && type->is_string() && type->get_string() == name;
}

// A ByteLevel decoder, alone or as a member of a Sequence.
bool decodes_bytes(const json::object& root) {
  const json::object* decoder = object_at(root, "decoder");
  if (decoder == nullptr) return false;
  if (has_type(*decoder, "ByteLevel")) return true;
  const json::value* members = decoder->if_contains("decoders");
  if (members == nullptr || !members->is_array()) return false;
  for (const json::value& member : members->get_array()) {
    if (member.is_object() && has_type(member.get_object(), "ByteLevel")) return true;
  }
  return false;
}

Error bad(const std::string& where, std::string found, std::string expected) {
  return {ErrorCode::bad_format, where, std::move(found), std::move(expected)};
}

Result<void> read_base(const json::object& root, const std::string& where, Spellings& spellings) {
  const json::object* model = object_at(root, "model");
  const json::object* vocab = model != nullptr ? object_at(*model, "vocab") : nullptr;
  if (vocab == nullptr) return bad(where, "no object model.vocab", "a BPE vocabulary");
  for (const auto& [spelling, id] : *vocab) {
    if (!id.is_int64() || !spellings.emplace(id.get_int64(), std::string(spelling)).second) {
      return bad(where, fmt::format("model.vocab[\"{}\"]", std::string_view(spelling)), "an id of its own");
    }
  }
  return {};
}

Result<void> read_added(const json::object& root, const std::string& where, Spellings& spellings) {
  const json::value* added = root.if_contains("added_tokens");
  if (added == nullptr || added->is_null()) return {};
  if (!added->is_array()) return bad(where, "added_tokens is no list", "a list of {id, content}");
  for (const json::value& entry : added->get_array()) {
    const json::object* token = entry.if_object();
    const json::value* id = token != nullptr ? token->if_contains("id") : nullptr;
    const json::value* content = token != nullptr ? token->if_contains("content") : nullptr;
    if (id == nullptr || content == nullptr || !id->is_int64() || !content->is_string()) {
      return bad(where, "an entry of added_tokens without id or content", "{id, content}");
    }
    spellings.insert_or_assign(id->get_int64(), std::string(content->get_string()));
  }
  return {};
}

}  // namespace

Result<std::vector<std::string>> tokenizer_vocabulary(std::string_view tokenizer_json, const std::string& where) {
  boost::system::error_code failed;
  const json::value parsed = json::parse({tokenizer_json.data(), tokenizer_json.size()}, failed);
  if (failed) return bad(where, failed.message(), "JSON");
  const json::object* root = parsed.if_object();
  if (root == nullptr) return bad(where, "no object", "a tokenizer.json object");
  if (!decodes_bytes(*root)) return bad(where, "no ByteLevel decoder", "a byte-level BPE tokenizer");

  Spellings spellings;
  if (auto read = read_base(*root, where, spellings); !read) return read.error();
  if (auto read = read_added(*root, where, spellings); !read) return read.error();
  std::vector<std::string> tokens;
  for (auto& [id, spelling] : spellings) {
    if (id != static_cast<std::int64_t>(tokens.size())) {
      return bad(where, fmt::format("token id {} after {}", id, static_cast<std::int64_t>(tokens.size()) - 1),
                 "ids 0, 1, 2, ...");
    }
    tokens.push_back(std::move(spelling));
  }
  return tokens;
}

}  // namespace tandem::engram
