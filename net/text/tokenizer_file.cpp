// One function a part of the file, in the file's order of importance: kind of model, splits, vocabulary, added tokens,
// merges.
#include "net/text/tokenizer_file.hpp"

#include "net/text/byte_alphabet.hpp"
#include "net/text/json/parse.hpp"
#include "net/text/pretokenizer.hpp"

#include <fmt/format.h>

#include <charconv>
#include <unordered_map>

namespace tandem::net::text {
namespace {

// Far above any vocabulary; keeps a broken id from allocating the world.
constexpr TokenId token_id_max = (1u << 24) - 1;

using Status = boost::system::result<void, Error>;
using IdOfBytes = std::unordered_map<std::string, TokenId>;

Error wrong(ErrorCode code, std::string field, std::string found, std::string expected) {
  return {code, std::move(field), std::move(found), std::move(expected)};
}

std::string described(const Json* value) {
  if (value == nullptr) return "nothing";
  if (const std::string* text = value->if_string()) return fmt::format("\"{}\"", *text);
  if (const bool* flag = value->if_bool()) return *flag ? "true" : "false";
  return std::string(value->type_name());
}

Status require_text(const Json* value, const std::string& field, std::string_view expected) {
  const std::string* text = value == nullptr ? nullptr : value->if_string();
  if (text != nullptr && *text == expected) return {};
  return wrong(ErrorCode::mismatch, field, described(value), fmt::format("\"{}\"", expected));
}

// Succeeds for null, false and absent.
Status require_unset(const Json& object, std::string_view key, const std::string& prefix) {
  const Json* value = object.find_given(key);
  if (value == nullptr || (value->if_bool() != nullptr && !*value->if_bool())) return {};
  return wrong(ErrorCode::mismatch, fmt::format("{}.{}", prefix, key), described(value), "null or false");
}

Result<TokenId> read_id(const Json* value, const std::string& field) {
  const JsonNumber* number = value == nullptr ? nullptr : value->if_number();
  if (number == nullptr) return wrong(ErrorCode::bad_format, field, described(value), "an integer id");
  TokenId id = 0;
  const char* end = number->text.data() + number->text.size();
  const auto [stop, error] = std::from_chars(number->text.data(), end, id);
  if (error != std::errc() || stop != end || id > token_id_max) {
    return wrong(ErrorCode::out_of_range, field, number->text, fmt::format("an integer id of 0..{}", token_id_max));
  }
  return id;
}

Status check_model(const Json& model) {
  if (auto status = require_text(model.find("type"), "model.type", "BPE"); !status) return status;
  for (const char* key : {"dropout", "unk_token", "byte_fallback", "ignore_merges"}) {
    if (auto status = require_unset(model, key, "model"); !status) return status;
  }
  for (const char* key : {"continuing_subword_prefix", "end_of_word_suffix"}) {
    const Json* value = model.find_given(key);
    if (value == nullptr || described(value) == "\"\"") continue;
    return wrong(ErrorCode::mismatch, fmt::format("model.{}", key), described(value), "null or empty");
  }
  return {};
}

Status check_normalizer(const Json* normalizer) {
  if (normalizer == nullptr) return {};
  const Json* steps = normalizer->find("normalizers");
  const JsonArray* list = steps == nullptr ? nullptr : steps->if_array();
  if (list != nullptr && list->empty()) return {};
  return wrong(ErrorCode::mismatch, "normalizer", described(normalizer), "null or an empty sequence");
}

Status check_split(const Json& split, std::string_view pattern, const std::string& field) {
  if (auto status = require_text(split.find("type"), field + ".type", "Split"); !status) return status;
  const Json* pattern_object = split.find("pattern");
  const Json* regex = pattern_object == nullptr ? nullptr : pattern_object->find("Regex");
  if (auto status = require_text(regex, field + ".pattern.Regex", pattern); !status) return status;
  if (auto status = require_text(split.find("behavior"), field + ".behavior", "Isolated"); !status) return status;
  return require_unset(split, "invert", field);
}

Status check_splits(const Json* pre_tokenizer) {
  const Json* steps = pre_tokenizer == nullptr ? nullptr : pre_tokenizer->find("pretokenizers");
  const JsonArray* list = steps == nullptr ? nullptr : steps->if_array();
  if (list == nullptr || list->size() != split_patterns.size() + 1) {
    return wrong(ErrorCode::mismatch, "pre_tokenizer.pretokenizers",
                 list == nullptr ? described(steps) : fmt::format("{} steps", list->size()),
                 "three splits and ByteLevel");
  }
  for (std::size_t i = 0; i < split_patterns.size(); ++i) {
    const std::string field = fmt::format("pre_tokenizer.pretokenizers[{}]", i);
    if (auto status = check_split((*list)[i], split_patterns[i], field); !status) return status;
  }
  const Json& last = list->back();
  const std::string field = fmt::format("pre_tokenizer.pretokenizers[{}]", list->size() - 1);
  if (auto status = require_text(last.find("type"), field + ".type", "ByteLevel"); !status) return status;
  if (auto status = require_unset(last, "add_prefix_space", field); !status) return status;
  return require_unset(last, "use_regex", field);
}

// Puts an entry at its id. The same bytes at the same id twice (an added token that is in the vocabulary too) are one
// entry.
Status place(TokenizerTables& tables, TokenId id, std::string bytes, const std::string& field) {
  if (tables.bytes_of_token.size() <= id) tables.bytes_of_token.resize(id + std::size_t{1});
  std::optional<std::string>& entry = tables.bytes_of_token[id];
  if (entry && *entry != bytes) {
    return wrong(ErrorCode::corrupt, field, fmt::format("id {} of another entry", id), "an id of its own");
  }
  entry = std::move(bytes);
  return {};
}

Status read_added_token(const Json& json, const std::string& field, std::vector<AddedToken>& out) {
  const Json* content = json.find("content");
  const std::string* text = content == nullptr ? nullptr : content->if_string();
  if (text == nullptr || text->empty()) {
    return wrong(ErrorCode::bad_format, field + ".content", described(content), "a text that is not empty");
  }
  for (const char* key : {"single_word", "lstrip", "rstrip"}) {
    if (auto status = require_unset(json, key, field); !status) return status;
  }
  auto id = read_id(json.find("id"), field + ".id");
  if (!id) return id.error();
  out.push_back({*id, *text});
  return {};
}

Status read_added_tokens(const Json& file, TokenizerTables& tables) {
  const Json* json = file.find("added_tokens");
  const JsonArray* list = json == nullptr ? nullptr : json->if_array();
  if (list == nullptr) return wrong(ErrorCode::bad_format, "added_tokens", described(json), "an array");
  std::vector<AddedToken> tokens;
  for (std::size_t i = 0; i < list->size(); ++i) {
    const std::string field = fmt::format("added_tokens[{}]", i);
    if (auto status = read_added_token((*list)[i], field, tokens); !status) return status;
    if (auto status = place(tables, tokens.back().id, tokens.back().text, field); !status) return status;
  }
  tables.added = AddedTokens(std::move(tokens));
  return {};
}

// An entry outside the byte alphabet can only be an added token that the vocabulary repeats; those are placed already.
Status read_vocabulary(const Json& model, TokenizerTables& tables, IdOfBytes& id_of_bytes) {
  const Json* json = model.find("vocab");
  const JsonObject* vocabulary = json == nullptr ? nullptr : json->if_object();
  if (vocabulary == nullptr) return wrong(ErrorCode::bad_format, "model.vocab", described(json), "an object");
  id_of_bytes.reserve(vocabulary->size());
  for (const JsonMember& entry : *vocabulary) {
    const std::string field = fmt::format("model.vocab[\"{}\"]", entry.key);
    auto id = read_id(&entry.value, field);
    if (!id) return id.error();
    if (tables.added.find(entry.key) == *id) continue;
    auto bytes = spelled_bytes(entry.key);
    if (!bytes || bytes->empty())
      return wrong(ErrorCode::bad_format, field, "other characters", "letters of the byte alphabet");
    id_of_bytes.emplace(*bytes, *id);
    if (auto status = place(tables, *id, std::move(*bytes), field); !status) return status;
  }
  return {};
}

Status find_byte_tokens(const IdOfBytes& id_of_bytes, TokenizerTables& tables) {
  for (int byte = 0; byte < 256; ++byte) {
    const auto found = id_of_bytes.find(std::string(1, static_cast<char>(byte)));
    if (found == id_of_bytes.end()) {
      return wrong(ErrorCode::not_found, "model.vocab", "no entry for a byte", fmt::format("byte 0x{:02X}", byte));
    }
    tables.byte_tokens[static_cast<std::size_t>(byte)] = found->second;
  }
  return {};
}

struct MergeParts {
  std::string left, right;
};

// A rule is "left right" in older files and ["left", "right"] in newer ones; the alphabet has no space.
std::optional<MergeParts> read_merge_parts(const Json& rule) {
  std::string_view left, right;
  if (const std::string* text = rule.if_string()) {
    const std::size_t space = text->find(' ');
    if (space == std::string::npos) return std::nullopt;
    left = std::string_view(*text).substr(0, space);
    right = std::string_view(*text).substr(space + 1);
  } else {
    const JsonArray* pair = rule.if_array();
    if (pair == nullptr || pair->size() != 2 || !(*pair)[0].if_string() || !(*pair)[1].if_string()) return std::nullopt;
    left = *(*pair)[0].if_string();
    right = *(*pair)[1].if_string();
  }
  auto left_bytes = spelled_bytes(left), right_bytes = spelled_bytes(right);
  if (!left_bytes || !right_bytes) return std::nullopt;
  return MergeParts{std::move(*left_bytes), std::move(*right_bytes)};
}

Status read_merges(const Json& model, const IdOfBytes& id_of_bytes, TokenizerTables& tables) {
  const Json* json = model.find("merges");
  const JsonArray* list = json == nullptr ? nullptr : json->if_array();
  if (list == nullptr) return wrong(ErrorCode::bad_format, "model.merges", described(json), "an array");
  tables.merges = MergeTable(list->size());
  for (std::size_t rank = 0; rank < list->size(); ++rank) {
    const std::string field = fmt::format("model.merges[{}]", rank);
    const auto parts = read_merge_parts((*list)[rank]);
    if (!parts) return wrong(ErrorCode::bad_format, field, described(&(*list)[rank]), "two entries");
    const auto left = id_of_bytes.find(parts->left), right = id_of_bytes.find(parts->right);
    const auto result = id_of_bytes.find(parts->left + parts->right);
    if (left == id_of_bytes.end() || right == id_of_bytes.end() || result == id_of_bytes.end()) {
      return wrong(ErrorCode::not_found, field, described(&(*list)[rank]), "parts and result in model.vocab");
    }
    tables.merges.insert(left->second, right->second, {static_cast<std::uint32_t>(rank), result->second});
  }
  return {};
}

Status fill(const Json& file, TokenizerTables& tables) {
  const Json* model = file.find("model");
  if (model == nullptr || model->if_object() == nullptr) {
    return wrong(ErrorCode::bad_format, "model", described(model), "an object");
  }
  IdOfBytes id_of_bytes;
  if (auto status = check_model(*model); !status) return status;
  if (auto status = check_normalizer(file.find_given("normalizer")); !status) return status;
  if (auto status = check_splits(file.find_given("pre_tokenizer")); !status) return status;
  if (auto status = read_added_tokens(file, tables); !status) return status;
  if (auto status = read_vocabulary(*model, tables, id_of_bytes); !status) return status;
  if (auto status = find_byte_tokens(id_of_bytes, tables); !status) return status;
  return read_merges(*model, id_of_bytes, tables);
}

}  // namespace

Result<TokenizerTables> read_tokenizer(std::string_view text, const std::string& name) {
  const auto in_file = [&](Error error) {
    error.where = error.where.empty() ? name : fmt::format("{}: {}", name, error.where);
    return error;
  };
  const auto file = parse_json(text);
  if (!file) return in_file(file.error());
  TokenizerTables tables;
  if (auto status = fill(*file, tables); !status) return in_file(status.error());
  return tables;
}

}  // namespace tandem::net::text
