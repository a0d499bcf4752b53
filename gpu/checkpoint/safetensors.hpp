// SafetensorsFile: the header of one safetensors file, checked, and reads of its tensors by byte range.
//
// Layout: u64 little-endian header length n, n bytes of JSON, then the data. A header entry is
//   "name": {"dtype": "BF16", "shape": [2, 3], "data_offsets": [0, 12]}
// with offsets counted from the start of the data. Invariant after open: the tensors cover the data exactly, without
// overlap or hole, and every tensor's range has the size that its shape and type say. The file is never mapped and
// never read as a whole.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "gpu/checkpoint/byte_source.hpp"
#include "gpu/tensor.hpp"

namespace tandem::gpu {

// Larger headers are refused before anything is allocated; the released shards have about 0.3 MB.
inline constexpr std::uint64_t header_bytes_max = 100'000'000;

struct TensorEntry {
  std::string name;
  DType dtype = DType::f32;
  std::vector<std::int64_t> shape;
  std::uint64_t offset = 0;  // of its first byte in the file
  std::uint64_t bytes = 0;
};

// Returns e.g. "F8_E4M3 [128, 256]", the way a tensor appears in messages.
std::string describe(DType dtype, std::span<const std::int64_t> shape);

// What a header says. `data_start` is the file offset of the data.
struct SafetensorsHeader {
  std::vector<TensorEntry> tensors;  // ascending by name
  std::map<std::string, std::string> metadata;
};

// Parses the JSON of a header. `where` names the file, `data_start` and `file_bytes` bound the ranges. Errors (naming
// file and tensor): bad_format (JSON, duplicate or unknown keys, unknown dtype, negative or overflowing shape, overlap,
// hole), mismatch (range and shape disagree), out_of_range (a range beyond the end: a truncated file).
struct HeaderText {
  std::string_view json;
  std::string where;
  std::uint64_t data_start = 0;
  std::uint64_t file_bytes = 0;
};
Result<SafetensorsHeader> parse_safetensors_header(const HeaderText& text);

class SafetensorsFile {
 public:
  // Opens and checks a file. Errors: those of `open` and of parse_safetensors_header.
  static Result<SafetensorsFile> open(const std::filesystem::path& path, const OpenSource& open_source = open_file);

  const std::filesystem::path& path() const noexcept { return path_; }
  std::span<const TensorEntry> tensors() const noexcept { return header_.tensors; }
  const std::map<std::string, std::string>& metadata() const noexcept { return header_.metadata; }
  // Returns the entry or null.
  const TensorEntry* find(std::string_view name) const noexcept;
  // Fills `into` from byte `first` of the tensor's range. Errors: io, invalid_argument (beyond the range).
  Result<void> read(const TensorEntry& tensor, std::uint64_t first, std::span<std::byte> into) const;
  // Returns a whole small tensor's bytes. Errors: not_found, io.
  Result<std::vector<std::byte>> read_all(std::string_view name) const;

 private:
  std::filesystem::path path_;
  std::shared_ptr<ByteSource> source_;
  SafetensorsHeader header_;
};

}  // namespace tandem::gpu
