// The JSON of a safetensors header, entry by entry, and the check that the ranges tile the data.
#include <fmt/format.h>

#include <algorithm>
#include <boost/json/serialize.hpp>
#include <boost/json/value.hpp>
#include <optional>

#include "gpu/checkpoint/safetensors.hpp"
#include "gpu/checkpoint/strict_json.hpp"

namespace tandem::gpu {
namespace {

namespace json = boost::json;

constexpr std::size_t dimensions_max = 8;

std::optional<DType> parse_dtype(std::string_view name) {
  for (DType dtype : {DType::f32, DType::bf16, DType::f16, DType::i32, DType::i64, DType::i16, DType::u8, DType::i8,
                      DType::f8_e4m3, DType::f8_e8m0}) {
    if (name == to_string(dtype)) return dtype;
  }
  return std::nullopt;
}

// A non-negative JSON integer that fits 63 bits.
std::optional<std::int64_t> as_count(const json::value& value) {
  if (!value.is_int64() || value.get_int64() < 0) return std::nullopt;
  return value.get_int64();
}

// One entry under construction: who it is, for messages, and where its data may lie.
class EntryReader {
 public:
  EntryReader(const HeaderText& text, std::string name) : text_(text) { entry_.name = std::move(name); }

  Result<TensorEntry> read(const json::value& value) {
    const json::object* object = value.if_object();
    if (object == nullptr || object->size() != 3) {
      return fault(ErrorCode::bad_format, json::serialize(value).substr(0, 80),
                   "an object of dtype, shape and data_offsets");
    }
    if (auto ok = read_dtype(object->if_contains("dtype")); !ok) return ok.error();
    const Result<std::uint64_t> bytes = read_shape(object->if_contains("shape"));
    if (!bytes) return bytes.error();
    if (auto ok = read_range(object->if_contains("data_offsets"), *bytes); !ok) return ok.error();
    return std::move(entry_);
  }

 private:
  Error fault(ErrorCode code, std::string found, std::string expected) const {
    return {code, text_.where + ": " + entry_.name, std::move(found), std::move(expected)};
  }

  Result<void> read_dtype(const json::value* value) {
    const json::string* name = value == nullptr ? nullptr : value->if_string();
    const std::optional<DType> dtype =
        name == nullptr ? std::nullopt : parse_dtype(std::string_view(name->data(), name->size()));
    if (!dtype) {
      return fault(ErrorCode::bad_format, "dtype " + (value == nullptr ? "absent" : json::serialize(*value)),
                   "F32, BF16, F16, I64, I32, I16, I8, U8, F8_E4M3 or F8_E8M0");
    }
    entry_.dtype = *dtype;
    return {};
  }

  // Returns the bytes that shape and type amount to.
  Result<std::uint64_t> read_shape(const json::value* value) {
    const json::array* dims = value == nullptr ? nullptr : value->if_array();
    if (dims == nullptr || dims->size() > dimensions_max) {
      return fault(ErrorCode::bad_format, "shape " + (value == nullptr ? "absent" : json::serialize(*value)),
                   fmt::format("a list of at most {} dimensions", dimensions_max));
    }
    std::uint64_t bytes = element_bytes(entry_.dtype);
    for (const json::value& dim : *dims) {
      const std::optional<std::int64_t> size = as_count(dim);
      if (!size || __builtin_mul_overflow(bytes, static_cast<std::uint64_t>(*size), &bytes)) {
        return fault(ErrorCode::bad_format, "shape " + json::serialize(*dims),
                     "dimensions >= 0 whose product fits 64 bits");
      }
      entry_.shape.push_back(*size);
    }
    return bytes;
  }

  Result<void> read_range(const json::value* value, std::uint64_t expected_bytes) {
    const json::array* pair = value == nullptr ? nullptr : value->if_array();
    const bool is_pair = pair != nullptr && pair->size() == 2;
    const std::optional<std::int64_t> begin = is_pair ? as_count((*pair)[0]) : std::nullopt;
    const std::optional<std::int64_t> end = is_pair ? as_count((*pair)[1]) : std::nullopt;
    if (!begin || !end || *end < *begin) {
      return fault(ErrorCode::bad_format, "data_offsets " + (value == nullptr ? "absent" : json::serialize(*value)),
                   "[begin, end] with 0 <= begin <= end");
    }
    const std::uint64_t data_bytes = text_.file_bytes - text_.data_start;
    if (static_cast<std::uint64_t>(*end) > data_bytes) {
      return fault(ErrorCode::out_of_range, fmt::format("data_offsets [{}, {}]", *begin, *end),
                   fmt::format("an end within the {} data bytes of the file (is it truncated?)", data_bytes));
    }
    entry_.bytes = static_cast<std::uint64_t>(*end - *begin);
    entry_.offset = text_.data_start + static_cast<std::uint64_t>(*begin);
    if (entry_.bytes != expected_bytes) {
      return fault(ErrorCode::mismatch, fmt::format("a range of {} bytes", entry_.bytes),
                   fmt::format("{} bytes for {}", expected_bytes, describe(entry_.dtype, entry_.shape)));
    }
    return {};
  }

  const HeaderText& text_;
  TensorEntry entry_;
};

Result<std::map<std::string, std::string>> read_metadata(const json::value& value, const std::string& where) {
  std::map<std::string, std::string> metadata;
  const json::object* object = value.if_object();
  if (object == nullptr)
    return Error{ErrorCode::bad_format, where + ": __metadata__", "not an object", "an object of strings"};
  for (const auto& [key, text] : *object) {
    if (!text.is_string()) {
      return Error{ErrorCode::bad_format, where + ": __metadata__." + std::string(key), json::serialize(text),
                   "a string"};
    }
    metadata.emplace(key, text.get_string());
  }
  return metadata;
}

// The tensors must tile [data_start, file_bytes): sorted by offset, each begins where the one before ended.
Result<void> check_tiling(const std::vector<TensorEntry>& tensors, const HeaderText& text) {
  std::vector<const TensorEntry*> by_offset;
  for (const TensorEntry& entry : tensors) by_offset.push_back(&entry);
  std::sort(by_offset.begin(), by_offset.end(), [](const TensorEntry* a, const TensorEntry* b) {
    return std::pair(a->offset, a->bytes) < std::pair(b->offset, b->bytes);
  });
  std::uint64_t covered = text.data_start;
  std::string before = "the header";
  for (const TensorEntry* entry : by_offset) {
    if (entry->offset != covered) {
      const char* fault = entry->offset < covered ? "an overlap with" : "a hole behind";
      return Error{ErrorCode::bad_format, text.where + ": " + entry->name, fmt::format("{} {}", fault, before),
                   fmt::format("data at file byte {}, not {}", covered, entry->offset)};
    }
    covered = entry->offset + entry->bytes;
    before = entry->name;
  }
  if (covered == text.file_bytes) return {};
  return Error{ErrorCode::bad_format, text.where, fmt::format("{} bytes behind {}", text.file_bytes - covered, before),
               "nothing behind the last tensor"};
}

}  // namespace

Result<SafetensorsHeader> parse_safetensors_header(const HeaderText& text) {
  if (text.json.empty() || text.json.front() != '{') {
    return Error{ErrorCode::bad_format, text.where, "a header that does not begin with '{'", "a JSON object"};
  }
  const Result<json::object> object = parse_strict_json(text.json, text.where);
  if (!object) return object.error();
  SafetensorsHeader header;
  for (const auto& [key, value] : *object) {
    if (key == "__metadata__") {
      auto metadata = read_metadata(value, text.where);
      if (!metadata) return metadata.error();
      header.metadata = std::move(*metadata);
      continue;
    }
    Result<TensorEntry> entry = EntryReader(text, std::string(key)).read(value);
    if (!entry) return entry.error();
    header.tensors.push_back(std::move(*entry));
  }
  if (auto tiled = check_tiling(header.tensors, text); !tiled) return tiled.error();
  std::sort(header.tensors.begin(), header.tensors.end(),
            [](const TensorEntry& a, const TensorEntry& b) { return a.name < b.name; });
  return header;
}

}  // namespace tandem::gpu
