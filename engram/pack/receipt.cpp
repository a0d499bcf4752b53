// Receipts as JSON. Reading is strict: a field that is missing, of another type or impossible is named.
#include "engram/pack/receipt.hpp"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <boost/json.hpp>
#include <cerrno>
#include <charconv>
#include <limits>
#include <system_error>

#include "engram/durable_file.hpp"
#include "engram/text_file.hpp"

namespace tandem::engram {
namespace {

namespace json = boost::json;

constexpr std::int64_t receipt_format = 1;
constexpr std::uint64_t receipt_bytes_max = std::uint64_t{64} << 20;  // the released tables have about 0.3 MB

Error bad(const std::string& where, std::string_view field, std::string found, std::string expected) {
  return {ErrorCode::bad_format, fmt::format("{}, {}", where, field), std::move(found), std::move(expected)};
}

// A field of whole numbers from `low` to `high`.
struct Limits {
  std::int64_t low = 0;
  std::int64_t high = std::numeric_limits<std::int64_t>::max();
};

Result<std::int64_t> number(const json::object& object, std::string_view field, Limits limits,
                            const std::string& where) {
  const json::value* value = object.if_contains({field.data(), field.size()});
  const std::int64_t* found = value != nullptr ? value->if_int64() : nullptr;
  if (found == nullptr)
    return bad(where, field, value != nullptr ? json::serialize(*value) : "missing", "a whole number");
  if (*found < limits.low || *found > limits.high) {
    return bad(where, field, std::to_string(*found), fmt::format("{} to {}", limits.low, limits.high));
  }
  return *found;
}

Result<std::uint32_t> checksum(const json::value& value, const std::string& where) {
  const json::string* text = value.if_string();
  std::uint32_t crc = 0;
  if (text != nullptr && text->size() == 8) {
    const auto [end, error] = std::from_chars(text->begin(), text->end(), crc, 16);
    if (error == std::errc() && end == text->end()) return crc;
  }
  return bad(where, "crc32c", json::serialize(value), "eight hexadecimal digits");
}

// The numbers of a receipt in the order of the file.
Result<void> read_numbers(const json::object& object, PackedReceipt& receipt, const std::string& where) {
  constexpr std::int64_t rows_max = std::numeric_limits<std::int32_t>::max();
  std::int64_t layer = 0, head_dim = 0, format = 0;
  TableInfo& info = receipt.table.info;
  const struct {
    std::string_view name;
    std::int64_t& value;
    Limits limits;
  } fields[] = {{"format", format, {receipt_format, receipt_format}},
                {"layer", layer, {0, 1 << 20}},
                {"rows", info.rows, {1, rows_max}},
                {"first_row", info.first_row, {0, rows_max}},
                {"last_row", info.last_row, {1, rows_max}},
                {"head_dim", head_dim, {scale_columns, 1 << 15}},
                {"block_rows", receipt.block_rows, {1, rows_max}},
                {"modified_ns", receipt.modified_ns, {}}};
  for (const auto& field : fields) {
    auto found = number(object, field.name, field.limits, where);
    if (!found) return found.error();
    field.value = *found;
  }
  if (info.first_row >= info.last_row || info.last_row > info.rows || head_dim % scale_columns != 0) {
    return bad(where, "last_row", fmt::format("rows {} to {} of {}", info.first_row, info.last_row, info.rows),
               "a range of rows of a multiple of 32 columns");
  }
  receipt.table.layer = static_cast<int>(layer);
  info.shape.head_dim = static_cast<int>(head_dim);
  return {};
}

Result<void> read_checksums(const json::object& object, PackedReceipt& receipt, const std::string& where) {
  const json::value* value = object.if_contains("crc32c");
  const json::array* list = value != nullptr ? value->if_array() : nullptr;
  const std::size_t blocks = block_count(receipt.table.info, receipt.block_rows);
  if (list == nullptr || list->size() != blocks) {
    return bad(where, "crc32c", list == nullptr ? "no list" : fmt::format("{} checksums", list->size()),
               fmt::format("{} checksums", blocks));
  }
  for (const json::value& entry : *list) {
    auto crc = checksum(entry, where);
    if (!crc) return crc.error();
    receipt.checksums.push_back(*crc);
  }
  return {};
}

}  // namespace

std::size_t block_count(const TableInfo& info, std::int64_t block_rows) noexcept {
  return static_cast<std::size_t>((info.last_row - info.first_row + block_rows - 1) / block_rows);
}

BlockRange block_range(const TableInfo& info, std::int64_t block_rows, std::size_t block) noexcept {
  const std::int64_t first = static_cast<std::int64_t>(block) * block_rows;
  return {first, std::min(first + block_rows, info.last_row - info.first_row)};
}

std::filesystem::path receipt_path(const std::filesystem::path& packed) {
  return packed.string() + ".json";
}

std::string format_receipt(const PackedReceipt& receipt) {
  const TableInfo& info = receipt.table.info;
  std::string text = fmt::format(
      "{{\"format\": {}, \"layer\": {}, \"first_row\": {}, \"last_row\": {}, \"rows\": {}, \"head_dim\": {},\n"
      " \"source\": \"{}\", \"block_rows\": {}, \"modified_ns\": {},\n \"crc32c\": [",
      receipt_format, receipt.table.layer, info.first_row, info.last_row, info.rows, info.shape.head_dim,
      receipt.source, receipt.block_rows, receipt.modified_ns);
  for (std::size_t i = 0; i < receipt.checksums.size(); ++i) {
    text += fmt::format("{}\"{:08x}\"", i == 0 ? "" : i % 10 == 0 ? ",\n  " : ", ", receipt.checksums[i]);
  }
  return text + "]}\n";
}

Result<PackedReceipt> parse_receipt(std::string_view text, const std::string& where) {
  boost::system::error_code failed;
  const json::value value = json::parse({text.data(), text.size()}, failed);
  if (failed || !value.is_object()) {
    return Error{ErrorCode::bad_format, where, failed ? failed.message() : "no JSON object",
                 "a receipt of a packed file"};
  }
  const json::object& object = value.get_object();
  PackedReceipt receipt;
  if (auto read = read_numbers(object, receipt, where); !read) return read.error();
  const json::value* source = object.if_contains("source");
  if (source == nullptr || !source->is_string()) return bad(where, "source", "missing", "a fingerprint");
  receipt.source = source->get_string().c_str();
  if (auto read = read_checksums(object, receipt, where); !read) return read.error();
  return receipt;
}

Result<PackedReceipt> read_receipt(const std::filesystem::path& packed) {
  const auto path = receipt_path(packed);
  const auto text = read_text(path, receipt_bytes_max);
  if (!text) return text.error();
  return parse_receipt(*text, path.string());
}

Result<void> write_receipt(const std::filesystem::path& packed, const PackedReceipt& receipt) {
  auto file = DurableFile::create(receipt_path(packed));
  if (!file) return file.error();
  const std::string text = format_receipt(receipt);
  if (auto written = file->append(std::as_bytes(std::span(text))); !written) return written.error();
  return file->commit();
}

Result<std::int64_t> modified_ns(const std::filesystem::path& file) {
  struct stat status {};
  if (::stat(file.c_str(), &status) != 0) {
    const ErrorCode code = errno == ENOENT ? ErrorCode::not_found : ErrorCode::io;
    return Error{code, file.string(), "stat: " + std::generic_category().message(errno), ""};
  }
  return static_cast<std::int64_t>(status.st_mtim.tv_sec) * 1'000'000'000 + status.st_mtim.tv_nsec;
}

}  // namespace tandem::engram
