// Books as JSON: read from both places, written to the first that takes them.
#include "gpu/weights_files/receipts.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>
#include <chrono>
#include <span>
#include <system_error>
#include <utility>

#include "engram/durable_file.hpp"
#include "engram/sha256.hpp"
#include "engram/text_file.hpp"
#include "gpu/checkpoint/strict_json.hpp"
#include "gpu/weights_files/manifest.hpp"

namespace tandem::gpu {
namespace {

namespace fs = std::filesystem;
namespace json = boost::json;

constexpr std::int64_t receipts_format = 1;
// An object of four values for each file; around them the root, its files and the format.
constexpr std::size_t values_max = 5 * manifest_files_max + 3;
// A book is written in milliseconds: what is older was left by a process that was killed.
constexpr auto stale_after = std::chrono::hours(1);

bool is_sha256(std::string_view text) {
  return text.size() == 64 && text.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

Result<FileReceipt> read_receipt_entry(const json::value& value, const std::string& where) {
  const json::object* object = value.if_object();
  const auto number = [&](const char* key) -> const std::int64_t* {
    const json::value* field = object == nullptr ? nullptr : object->if_contains(key);
    const std::int64_t* whole = field == nullptr ? nullptr : field->if_int64();
    return whole != nullptr && *whole >= 0 ? whole : nullptr;
  };
  const std::int64_t* bytes = number("bytes");
  const std::int64_t* modified = number("modified_ns");
  const std::int64_t* inode = number("inode");
  const json::value* hash = object == nullptr ? nullptr : object->if_contains("sha256");
  const json::string* text = hash == nullptr ? nullptr : hash->if_string();
  if (bytes != nullptr && modified != nullptr && inode != nullptr && text != nullptr &&
      is_sha256({text->data(), text->size()})) {
    return FileReceipt{{static_cast<std::uint64_t>(*bytes), *modified, static_cast<std::uint64_t>(*inode)},
                       std::string(text->data(), text->size())};
  }
  return Error{ErrorCode::bad_format, where, json::serialize(value).substr(0, 200),
               "an object of bytes, modified_ns, inode and sha256"};
}

FileReceipts read_book(const fs::path& file) {
  if (file.empty()) return {};
  const auto text = engram::read_text(file, manifest_text_bytes_max);
  if (!text) return {};
  auto receipts = parse_receipts(*text, file.string());
  return receipts ? std::move(*receipts) : FileReceipts{};
}

Result<void> write_book(const fs::path& file, const FileReceipts& receipts) {
  auto durable = engram::DurableFile::create(file);
  if (!durable) return durable.error();
  const std::string text = to_json(receipts);
  if (auto written = durable->append(std::as_bytes(std::span(text))); !written) return written.error();
  return durable->commit();
}

// Removes what killed writers of a book left: temporary files, under its name and six random characters.
void remove_stale_temporaries(const fs::path& book) {
  const std::string prefix = book.filename().string() + '.';
  std::error_code failed;
  for (fs::directory_iterator at(book.parent_path(), failed), end; !failed && at != end; at.increment(failed)) {
    const std::string name = at->path().filename().string();
    if (!name.starts_with(prefix) || name.size() != prefix.size() + 6) continue;
    std::error_code absent;
    const auto written = fs::last_write_time(at->path(), absent);
    if (!absent && fs::file_time_type::clock::now() - written > stale_after) fs::remove(at->path(), absent);
  }
}

// One book for each folder, named after where it really is.
fs::path fallback_file(const fs::path& folder, const fs::path& state_folder) {
  if (state_folder.empty()) return {};
  std::error_code failed;
  const std::string place = fs::weakly_canonical(folder, failed).string();
  return state_folder / "receipts" / (engram::sha256_hex(std::as_bytes(std::span(place))).substr(0, 16) + ".json");
}

}  // namespace

Result<FileReceipts> parse_receipts(std::string_view text, std::string_view where) {
  const std::string name(where);
  const auto root = parse_strict_json(text, name, values_max);
  if (!root) return root.error();
  const json::value* format = root->if_contains("format");
  const json::value* files = root->if_contains("files");
  if (format == nullptr || *format != receipts_format || files == nullptr || !files->is_object()) {
    return Error{ErrorCode::bad_format, name, "no receipts", fmt::format("format {} and files", receipts_format)};
  }
  FileReceipts receipts;
  for (const auto& [key, value] : files->get_object()) {
    const std::string path(key.data(), key.size());
    auto receipt = read_receipt_entry(value, name + ": " + path);
    if (!receipt) return receipt.error();
    receipts.emplace(path, std::move(*receipt));
  }
  return receipts;
}

std::string to_json(const FileReceipts& receipts) {
  std::string text = fmt::format("{{\"format\": {}, \"files\": {{", receipts_format);
  const char* separator = "\n";
  for (const auto& [path, receipt] : receipts) {
    text += fmt::format("{}  {}: {{\"bytes\": {}, \"modified_ns\": {}, \"inode\": {}, \"sha256\": \"{}\"}}",
                        std::exchange(separator, ",\n"), json::serialize(json::value(path)), receipt.state.bytes,
                        receipt.state.modified_ns, receipt.state.inode, receipt.sha256);
  }
  return text + "}}\n";
}

ReceiptBook::ReceiptBook(fs::path beside, fs::path fallback)
    : beside_(std::move(beside)), fallback_(std::move(fallback)), books_{read_book(beside_), read_book(fallback_)} {}

ReceiptBook ReceiptBook::open(const fs::path& folder, const fs::path& state_folder) {
  return {folder / receipt_file_name, fallback_file(folder, state_folder)};
}

// A book that can no longer be written may hold stale entries for ever; the other one then has the newer ones.
std::optional<std::string> ReceiptBook::hash_of(std::string_view path, const FileState& state) const {
  for (const FileReceipts* book : {&noted_, &books_[0], &books_[1]}) {
    const auto at = book->find(path);
    if (at != book->end() && at->second.state == state) return at->second.sha256;
  }
  return std::nullopt;
}

bool ReceiptBook::has(std::string_view path) const {
  return noted_.contains(path) || books_[0].contains(path) || books_[1].contains(path);
}

void ReceiptBook::note(const std::string& path, FileReceipt receipt) {
  noted_.insert_or_assign(path, std::move(receipt));
}

Result<void> ReceiptBook::save() {
  if (noted_.empty()) return {};
  const auto write_to = [&](const fs::path& file) {
    FileReceipts all = noted_;
    all.merge(read_book(file));
    return write_book(file, all);
  };
  if (!std::exchange(is_swept_, true)) {
    remove_stale_temporaries(beside_);
    if (!fallback_.empty()) remove_stale_temporaries(fallback_);
  }
  auto written = write_to(beside_);
  if (!written && !fallback_.empty()) {
    std::error_code failed;
    fs::create_directories(fallback_.parent_path(), failed);
    written = write_to(fallback_);
  }
  if (!written) return written;
  noted_.merge(books_[0]);
  books_[0] = std::exchange(noted_, {});
  return {};
}

}  // namespace tandem::gpu
