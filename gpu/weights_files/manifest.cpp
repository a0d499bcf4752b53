// Strict reading: what is not exactly as expected is refused with the entry that it is in.
#include "gpu/weights_files/manifest.hpp"

#include <fmt/format.h>
#include <utf8proc.h>

#include <algorithm>
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>
#include <initializer_list>
#include <span>
#include <utility>

#include "engram/durable_file.hpp"
#include "engram/sha256.hpp"
#include "engram/text_file.hpp"
#include "gpu/checkpoint/strict_json.hpp"
#include "gpu/weights_files/byte_count.hpp"

namespace tandem::gpu {
namespace {

namespace json = boost::json;

constexpr std::int64_t manifest_format = 1;
// An object of three values for each file; around them the root, its list and two values.
constexpr std::size_t values_max = 4 * manifest_files_max + 4;
constexpr std::size_t revision_bytes_max = 256;
constexpr std::size_t shown_bytes_max = 200;  // of a wrong value in a message

bool is_control(char c) {
  return static_cast<unsigned char>(c) < 0x20 || c == 0x7F;
}

// JSON is UTF-8: a name that is not could be written but never read again.
bool is_utf8(std::string_view text) {
  while (!text.empty()) {
    utf8proc_int32_t point = 0;
    const auto* bytes = reinterpret_cast<const utf8proc_uint8_t*>(text.data());
    const utf8proc_ssize_t used = utf8proc_iterate(bytes, static_cast<utf8proc_ssize_t>(text.size()), &point);
    if (used <= 0) return false;
    text.remove_prefix(static_cast<std::size_t>(used));
  }
  return true;
}

std::string_view view_of(const json::string& text) {
  return {text.data(), text.size()};
}

// The text of a string in JSON, quotes included.
std::string json_string(std::string_view text) {
  return json::serialize(json::value(json::string_view(text.data(), text.size())));
}

// A value as JSON, cut to a length that a message can bear.
std::string shown(const json::value* value) {
  if (value == nullptr) return "missing";
  std::string text = json::serialize(*value);
  if (text.size() > shown_bytes_max) text = text.substr(0, shown_bytes_max) + "...";
  return text;
}

Error bad(std::string where, const json::value* found, std::string expected) {
  return {ErrorCode::bad_format, std::move(where), shown(found), std::move(expected)};
}

// A misspelt "sha256" must not pass for a file without a hash.
Result<void> check_keys(const json::object& object, std::initializer_list<std::string_view> known,
                        const std::string& where) {
  for (const auto& [key, value] : object) {
    if (std::find(known.begin(), known.end(), std::string_view(key.data(), key.size())) != known.end()) continue;
    return Error{ErrorCode::bad_format, where, "key " + json_string({key.data(), key.size()}),
                 fmt::format("only {}", fmt::join(known, ", "))};
  }
  return {};
}

Result<std::string> read_hash(const json::value* value, const std::string& where) {
  const json::string* text = value == nullptr ? nullptr : value->if_string();
  const auto is_digit = [](char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
  };
  const bool is_hash =
      text != nullptr && (text->empty() || text->size() == 64) && std::all_of(text->begin(), text->end(), is_digit);
  if (!is_hash) return bad(where + ": sha256", value, "64 hexadecimal digits, or \"\" where the hash is not known");
  std::string hash(view_of(*text));
  for (char& c : hash) c = c >= 'A' && c <= 'F' ? static_cast<char>(c - 'A' + 'a') : c;
  return hash;
}

Result<std::uint64_t> read_bytes(const json::value* value, const std::string& where) {
  const std::int64_t* whole = value == nullptr ? nullptr : value->if_int64();
  if (whole != nullptr && *whole >= 0 && static_cast<std::uint64_t>(*whole) <= manifest_file_bytes_max)
    return static_cast<std::uint64_t>(*whole);
  Error error = bad(where + ": bytes", value, fmt::format("a whole number from 0 to {}", manifest_file_bytes_max));
  if (value != nullptr && value->is_number()) error.code = ErrorCode::out_of_range;
  return error;
}

// `where` names the entry by its number; the path joins it once it is known to be one.
Result<ManifestEntry> read_entry(const json::value& value, std::string where) {
  const json::object* object = value.if_object();
  if (object == nullptr) return bad(where, &value, "an object with path, bytes and sha256");
  if (auto ok = check_keys(*object, {"path", "bytes", "sha256"}, where); !ok) return ok.error();
  const json::value* path = object->if_contains("path");
  if (path == nullptr || !path->is_string()) return bad(where + ": path", path, "a string");
  if (auto ok = check_manifest_path(view_of(path->get_string()), where + ": path"); !ok) return ok.error();
  ManifestEntry entry;
  entry.path = view_of(path->get_string());
  where += fmt::format(" ({})", entry.path);
  const auto bytes = read_bytes(object->if_contains("bytes"), where);
  if (!bytes) return bytes.error();
  auto hash = read_hash(object->if_contains("sha256"), where);
  if (!hash) return hash.error();
  entry.bytes = *bytes;
  entry.sha256 = std::move(*hash);
  return entry;
}

Result<std::string> read_head(const json::object& root, const std::string& where) {
  if (auto ok = check_keys(root, {"format", "revision", "files"}, where); !ok) return ok.error();
  const json::value* format = root.if_contains("format");
  if (format == nullptr || !format->is_int64()) return bad(where + ": format", format, std::to_string(manifest_format));
  if (format->get_int64() != manifest_format) {
    return Error{ErrorCode::mismatch, where + ": format", shown(format), std::to_string(manifest_format)};
  }
  const json::value* revision = root.if_contains("revision");
  const json::string* text = revision == nullptr ? nullptr : revision->if_string();
  if (text == nullptr || text->size() > revision_bytes_max) {
    return bad(where + ": revision", revision, fmt::format("a string of at most {} bytes", revision_bytes_max));
  }
  // Journals and terminals show it in one line.
  if (std::any_of(text->begin(), text->end(), is_control)) {
    return bad(where + ": revision", revision, "a string without control characters");
  }
  return std::string(view_of(*text));
}

bool by_path(const ManifestEntry& a, const ManifestEntry& b) {
  return a.path < b.path;
}

// Requires ascending paths. Finds "a" beside "a" and "a" beside "a/b".
Result<void> check_distinct(const std::vector<ManifestEntry>& files, std::string_view where) {
  const auto has = [&](std::string_view path) {
    const auto at = std::lower_bound(files.begin(), files.end(), path,
                                     [](const ManifestEntry& entry, std::string_view p) { return entry.path < p; });
    return at != files.end() && at->path == path;
  };
  for (std::size_t i = 0; i < files.size(); ++i) {
    const std::string& path = files[i].path;
    if (i > 0 && files[i - 1].path == path) {
      return Error{ErrorCode::bad_format, std::string(where), fmt::format("{} twice", path), "each file once"};
    }
    for (std::size_t slash = path.find('/'); slash != std::string::npos; slash = path.find('/', slash + 1)) {
      if (!has(std::string_view(path).substr(0, slash))) continue;
      return Error{ErrorCode::bad_format, std::string(where),
                   fmt::format("{} as a file and as the folder of {}", path.substr(0, slash), path),
                   "a file or a folder"};
    }
  }
  return {};
}

Result<void> check_count(std::size_t files, std::string_view where) {
  if (files <= manifest_files_max) return {};
  return Error{ErrorCode::out_of_range, fmt::format("{}: files", where), fmt::format("{} entries", files),
               fmt::format("at most {}", manifest_files_max)};
}

std::vector<ManifestEntry> sorted(std::vector<ManifestEntry> files) {
  std::stable_sort(files.begin(), files.end(), by_path);
  return files;
}

}  // namespace

std::uint64_t Manifest::bytes_all() const noexcept {
  std::uint64_t sum = 0;
  for (const ManifestEntry& entry : files) sum = add_bytes(sum, entry.bytes);
  return sum;
}

Result<void> check_manifest_path(std::string_view path, std::string_view where) {
  const auto refuse = [&](ErrorCode code, std::string expected) {
    const json::value value(json::string_view(path.data(), path.size()));
    return Error{code, std::string(where), shown(&value), std::move(expected)};
  };
  if (path.empty() || path.size() > manifest_path_bytes_max) {
    return refuse(ErrorCode::out_of_range, fmt::format("a path of 1 to {} bytes", manifest_path_bytes_max));
  }
  if (!is_utf8(path)) {
    return Error{ErrorCode::bad_format, std::string(where), "bytes that are no UTF-8", "a path in UTF-8"};
  }
  const auto is_odd = [](char c) { return is_control(c) || c == '\\'; };
  if (std::any_of(path.begin(), path.end(), is_odd)) {
    return refuse(ErrorCode::bad_format, "a path without control characters and backslashes");
  }
  for (std::size_t begin = 0; begin <= path.size();) {
    const std::size_t end = std::min(path.find('/', begin), path.size());
    const std::string_view part = path.substr(begin, end - begin);
    if (part.empty() || part == "." || part == ".." || part.size() > 255) {
      return refuse(ErrorCode::bad_format, "a relative path inside the folder, each part a plain name");
    }
    // Receipts, journals and half-written files: a manifest that listed them could make a wrong file pass for right.
    const bool is_own =
        part.starts_with(".tandem") || part == manifest_file_name || !engram::replaced_name(part).empty();
    if (is_own) {
      return refuse(ErrorCode::bad_format, "a file of the model, not one of Tandem's own");
    }
    begin = end + 1;
  }
  return {};
}

Result<Manifest> parse_manifest(std::string_view text, std::string_view where) {
  const std::string name(where);
  if (text.size() > manifest_text_bytes_max) {
    return Error{ErrorCode::out_of_range, name, fmt::format("{} bytes", text.size()),
                 fmt::format("at most {}", manifest_text_bytes_max)};
  }
  const auto root = parse_strict_json(text, name, values_max);
  if (!root) return root.error();
  auto revision = read_head(*root, name);
  if (!revision) return revision.error();
  const json::value* files = root->if_contains("files");
  const json::array* list = files == nullptr ? nullptr : files->if_array();
  if (list == nullptr) return bad(name + ": files", files, "a list of files");
  if (auto ok = check_count(list->size(), name); !ok) return ok.error();
  Manifest manifest{std::move(*revision), {}};
  for (std::size_t i = 0; i < list->size(); ++i) {
    auto entry = read_entry((*list)[i], fmt::format("{}, file {}", name, i + 1));
    if (!entry) return entry.error();
    manifest.files.push_back(std::move(*entry));
  }
  manifest.files = sorted(std::move(manifest.files));
  if (auto ok = check_distinct(manifest.files, where); !ok) return ok.error();
  return manifest;
}

Result<void> check_manifest(const Manifest& manifest, std::string_view where) {
  if (auto ok = check_count(manifest.files.size(), where); !ok) return ok;
  for (const ManifestEntry& entry : manifest.files) {
    if (auto ok = check_manifest_path(entry.path, where); !ok) return ok;
  }
  return check_distinct(sorted(manifest.files), where);
}

std::string to_json(const Manifest& manifest) {
  std::string text =
      fmt::format("{{\"format\": {}, \"revision\": {}, \"files\": [", manifest_format, json_string(manifest.revision));
  const char* separator = "\n";
  for (const ManifestEntry& entry : sorted(manifest.files)) {
    text += fmt::format("{}  {{\"path\": {}, \"bytes\": {}, \"sha256\": \"{}\"}}", std::exchange(separator, ",\n"),
                        json_string(entry.path), entry.bytes, entry.sha256);
  }
  return text + "]}\n";
}

std::string manifest_hash(const Manifest& manifest) {
  engram::Sha256 hash;
  for (const ManifestEntry& entry : sorted(manifest.files)) {
    // A path has no control characters, so the newlines keep the fields apart.
    const std::string line = fmt::format("{}\n{}\n{}\n", entry.path, entry.bytes, entry.sha256);
    hash.update(std::as_bytes(std::span(line)));
  }
  return engram::to_hex(hash.finish());
}

Result<Manifest> read_manifest(const std::filesystem::path& folder) {
  const auto path = folder / manifest_file_name;
  const auto text = engram::read_text(path, manifest_text_bytes_max);
  if (!text) return text.error();
  return parse_manifest(*text, path.string());
}

Result<void> write_manifest(const std::filesystem::path& folder, const Manifest& manifest) {
  auto file = engram::DurableFile::create(folder / manifest_file_name);
  if (!file) return file.error();
  const std::string text = to_json(manifest);
  if (auto written = file->append(std::as_bytes(std::span(text))); !written) return written.error();
  return file->commit();
}

}  // namespace tandem::gpu
