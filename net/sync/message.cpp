// One table says which fields a kind has; writing and reading both follow it.
#include "net/sync/message.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <boost/json/object.hpp>
#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>
#include <iterator>

#include "gpu/weights_files/manifest.hpp"

namespace tandem::net::sync {
namespace {

namespace json = boost::json;

struct KindRow {
  MessageKind kind;
  std::string_view name;
  std::string_view fields;  // separated by one blank
};

constexpr KindRow kind_table[] = {
    {MessageKind::revision, "revision", ""},
    {MessageKind::revision_is, "revision_is", "sha256 text"},
    {MessageKind::mount, "mount", ""},
    {MessageKind::mount_is, "mount_is", "text address"},
    {MessageKind::digest, "digest", "path offset bytes"},
    {MessageKind::nonce, "nonce", "text"},
    {MessageKind::digest_is, "digest_is", "sha256 bytes"},
    {MessageKind::offer, "offer", "path bytes modified_ns chunk_bytes sha256 forced"},
    {MessageKind::have, "have", "state sha256 done chunk_bytes"},
    {MessageKind::reserve, "reserve", "bytes"},
    {MessageKind::chunk, "chunk", "path bytes modified_ns chunk_bytes sha256 index"},
    {MessageKind::stored, "stored", "index"},
    {MessageKind::finish, "finish", "path bytes modified_ns sha256"},
    {MessageKind::working, "working", ""},
    {MessageKind::finished, "finished", ""},
    {MessageKind::manifest, "manifest", ""},
    {MessageKind::end, "end", ""},
    {MessageKind::done, "done", ""},
    {MessageKind::refused, "refused", "code text"},
};

struct TextField {
  std::string_view name;
  std::string Message::*member;
  std::size_t bytes_max;
};
constexpr TextField text_fields[] = {
    {"path", &Message::path, gpu::manifest_path_bytes_max},
    {"sha256", &Message::sha256, 64},
    {"text", &Message::text, text_bytes_max},
    {"address", &Message::address, 64},
    {"code", &Message::code, 32},
    {"state", &Message::state, 8},
    {"done", &Message::done, chunks_max / 4 + 2},
};

struct NumberField {
  std::string_view name;
  std::uint64_t Message::*member;
  std::uint64_t max;
};
constexpr NumberField number_fields[] = {
    {"bytes", &Message::bytes, gpu::manifest_file_bytes_max},
    {"offset", &Message::offset, gpu::manifest_file_bytes_max},
    {"index", &Message::index, chunks_max},
    {"chunk_bytes", &Message::chunk_bytes, chunk_bytes_max},
    {"modified_ns", &Message::modified_ns, INT64_MAX},
};

const KindRow& row_of(MessageKind kind) {
  return *std::find_if(std::begin(kind_table), std::end(kind_table),
                       [kind](const KindRow& row) { return row.kind == kind; });
}

// Calls `use` for every field of a row; stops at the first error.
template <class Use>
Result<void> for_each_field(const KindRow& row, Use use) {
  for (std::string_view rest = row.fields; !rest.empty();) {
    const std::size_t end = std::min(rest.find(' '), rest.size());
    if (Result<void> used = use(rest.substr(0, end)); !used) return used;
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  return {};
}

template <class Field, std::size_t n>
const Field* find_field(const Field (&fields)[n], std::string_view name) {
  const auto at = std::find_if(std::begin(fields), std::end(fields), [name](const Field& f) { return f.name == name; });
  return at == std::end(fields) ? nullptr : &*at;
}

Error bad_field(const KindRow& row, std::string_view field, std::string expected) {
  return {ErrorCode::bad_format, fmt::format("message {}: {}", row.name, field), "something else", std::move(expected)};
}

Result<void> read_field(Message& message, const KindRow& row, std::string_view name, const json::value& value) {
  if (const TextField* field = find_field(text_fields, name)) {
    const json::string* text = value.if_string();
    if (text == nullptr || text->size() > field->bytes_max)
      return bad_field(row, name, fmt::format("a string of at most {} bytes", field->bytes_max));
    message.*(field->member) = std::string(text->data(), text->size());
    return {};
  }
  if (const NumberField* field = find_field(number_fields, name)) {
    const std::int64_t* whole = value.if_int64();
    if (whole == nullptr || *whole < 0 || static_cast<std::uint64_t>(*whole) > field->max)
      return bad_field(row, name, fmt::format("a whole number up to {}", field->max));
    message.*(field->member) = static_cast<std::uint64_t>(*whole);
    return {};
  }
  if (!value.is_bool()) return bad_field(row, name, "true or false");
  message.forced = value.get_bool();
  return {};
}

// What a field's type does not say.
Result<void> check_fields(const Message& message, const KindRow& row) {
  if (row.fields.find("path") != std::string_view::npos) {
    if (auto ok = gpu::check_manifest_path(message.path, fmt::format("message {}: path", row.name)); !ok) return ok;
  }
  const bool is_hash =
      message.sha256.empty() ||
      (message.sha256.size() == 64 && message.sha256.find_first_not_of("0123456789abcdef") == std::string::npos);
  if (!is_hash) return bad_field(row, "sha256", "64 lower-case hexadecimal digits or nothing");
  return {};
}

}  // namespace

std::string_view to_string(MessageKind kind) noexcept {
  return row_of(kind).name;
}

std::string to_json(const Message& message) {
  const KindRow& row = row_of(message.kind);
  json::object object{{"kind", json::string_view(row.name.data(), row.name.size())}};
  const auto added = for_each_field(row, [&](std::string_view name) -> Result<void> {
    const json::string_view key(name.data(), name.size());
    if (const TextField* text = find_field(text_fields, name)) {
      object[key] = message.*(text->member);
    } else if (const NumberField* number = find_field(number_fields, name)) {
      object[key] = message.*(number->member);
    } else {
      object[key] = message.forced;
    }
    return {};
  });
  (void)added;  // writing cannot fail
  return json::serialize(object);
}

Result<Message> parse_message(std::string_view text) {
  boost::system::error_code failed;
  const json::value value = json::parse(json::string_view(text.data(), text.size()), failed);
  const json::object* object = failed ? nullptr : value.if_object();
  if (object == nullptr) return Error{ErrorCode::bad_format, "message", "no JSON object", "an object"};
  const json::value* kind = object->if_contains("kind");
  const json::string* name = kind == nullptr ? nullptr : kind->if_string();
  const auto row = std::find_if(std::begin(kind_table), std::end(kind_table), [&](const KindRow& candidate) {
    return name != nullptr && std::string_view(name->data(), name->size()) == candidate.name;
  });
  if (row == std::end(kind_table)) return Error{ErrorCode::bad_format, "message", "an unknown kind", "a known one"};
  Message message{row->kind};
  std::size_t fields = 0;
  const auto read = for_each_field(*row, [&](std::string_view field) -> Result<void> {
    ++fields;
    const json::value* value = object->if_contains(json::string_view(field.data(), field.size()));
    if (value == nullptr) return bad_field(*row, field, "to be there");
    return read_field(message, *row, field, *value);
  });
  if (!read) return read.error();
  if (object->size() != fields + 1) return bad_field(*row, "fields", fmt::format("only {}", row->fields));
  if (auto ok = check_fields(message, *row); !ok) return ok.error();
  return message;
}

Message refusal(const Error& error) {
  Message message{MessageKind::refused};
  message.code = tandem::to_string(error.code);
  message.text = error.message().substr(0, text_bytes_max);
  return message;
}

Error error_of(const Message& refused, const std::string& peer) {
  for (int code = 0; code <= static_cast<int>(ErrorCode::internal); ++code) {
    if (refused.code == tandem::to_string(static_cast<ErrorCode>(code)))
      return {static_cast<ErrorCode>(code), peer, refused.text, ""};
  }
  return {ErrorCode::internal, peer, refused.text, ""};
}

Result<void> check_head(const FrameHead& head) {
  if (head.magic == FrameHead{}.magic && head.control_bytes > 0 && head.control_bytes <= control_bytes_max &&
      head.data_bytes <= data_bytes_max && head.reserved == 0)
    return {};
  return Error{ErrorCode::bad_format, "frame",
               fmt::format("magic {:08x}, {} and {} bytes", head.magic, head.control_bytes, head.data_bytes),
               fmt::format("at most {} and {} bytes", control_bytes_max, data_bytes_max)};
}

}  // namespace tandem::net::sync
