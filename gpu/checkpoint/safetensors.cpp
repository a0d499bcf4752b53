// Opening a safetensors file: the length word is judged before a byte of the header is allocated.
#include "gpu/checkpoint/safetensors.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace tandem::gpu {
namespace {

constexpr std::uint64_t length_bytes = 8;

Result<std::uint64_t> read_header_length(ByteSource& source, const std::string& where) {
  if (source.size() < length_bytes) {
    return Error{ErrorCode::bad_format, where, fmt::format("{} bytes", source.size()),
                 "at least the 8 bytes of the header length"};
  }
  std::array<std::byte, length_bytes> word{};
  if (auto read = source.read(0, word); !read) return read.error();
  std::uint64_t length = 0;
  for (std::size_t i = length_bytes; i-- > 0;) length = length << 8 | std::to_integer<std::uint64_t>(word[i]);
  const std::uint64_t most = std::min(header_bytes_max, source.size() - length_bytes);
  if (length < 2 || length > most) {
    return Error{ErrorCode::bad_format, where, fmt::format("a header of {} bytes", length),
                 fmt::format("2..{} bytes in a file of {}", most, source.size())};
  }
  return length;
}

}  // namespace

std::string describe(DType dtype, std::span<const std::int64_t> shape) {
  std::string text = to_string(dtype);
  const char* before = " [";
  for (std::int64_t dim : shape) {
    text += before + std::to_string(dim);
    before = ", ";
  }
  return text + (shape.empty() ? " []" : "]");
}

Result<SafetensorsFile> SafetensorsFile::open(const std::filesystem::path& path, const OpenSource& open_source) {
  Result<std::unique_ptr<ByteSource>> source = open_source(path);
  if (!source) return source.error();
  const Result<std::uint64_t> length = read_header_length(**source, path.string());
  if (!length) return length.error();
  std::string json(*length, '\0');
  if (auto read = (*source)->read(length_bytes, std::as_writable_bytes(std::span(json))); !read) return read.error();
  Result<SafetensorsHeader> header =
      parse_safetensors_header({json, path.string(), length_bytes + *length, (*source)->size()});
  if (!header) return header.error();
  SafetensorsFile file;
  file.path_ = path;
  file.source_ = std::move(*source);
  file.header_ = std::move(*header);
  return file;
}

const TensorEntry* SafetensorsFile::find(std::string_view name) const noexcept {
  const auto at =
      std::lower_bound(header_.tensors.begin(), header_.tensors.end(), name,
                       [](const TensorEntry& entry, std::string_view wanted) { return entry.name < wanted; });
  return at != header_.tensors.end() && at->name == name ? &*at : nullptr;
}

Result<void> SafetensorsFile::read(const TensorEntry& tensor, std::uint64_t first, std::span<std::byte> into) const {
  if (first > tensor.bytes || into.size() > tensor.bytes - first) {
    return Error{ErrorCode::invalid_argument, path_.string() + ": " + tensor.name,
                 fmt::format("a read of {} bytes at {}", into.size(), first),
                 fmt::format("at most {} bytes", tensor.bytes)};
  }
  return source_->read(tensor.offset + first, into);
}

Result<std::vector<std::byte>> SafetensorsFile::read_all(std::string_view name) const {
  const TensorEntry* entry = find(name);
  if (entry == nullptr) {
    return Error{ErrorCode::not_found, path_.string(), "no tensor '" + std::string(name) + "'", "the tensor"};
  }
  std::vector<std::byte> bytes(entry->bytes);
  if (auto done = read(*entry, 0, bytes); !done) return done.error();
  return bytes;
}

}  // namespace tandem::gpu
