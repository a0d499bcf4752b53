// The reverse of safetensors_header.cpp; DurableFile makes the file appear at once.
#include "gpu/checkpoint/safetensors_writer.hpp"

#include <fmt/format.h>

#include <array>
#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>
#include <boost/json/value_from.hpp>
#include <set>

#include "engram/durable_file.hpp"
#include "gpu/checkpoint/safetensors.hpp"

namespace tandem::gpu {
namespace {

namespace json = boost::json;

constexpr std::size_t data_alignment = 8;

Result<void> check(const TensorData& tensor, const std::string& where) {
  std::uint64_t bytes = element_bytes(tensor.dtype);
  for (std::int64_t dim : tensor.shape) {
    if (dim < 0 || __builtin_mul_overflow(bytes, static_cast<std::uint64_t>(dim), &bytes)) {
      return Error{ErrorCode::invalid_argument, where, describe(tensor.dtype, tensor.shape), "dimensions >= 0"};
    }
  }
  if (bytes == tensor.bytes.size()) return {};
  return Error{ErrorCode::invalid_argument, where, fmt::format("{} bytes", tensor.bytes.size()),
               fmt::format("{} bytes for {}", bytes, describe(tensor.dtype, tensor.shape))};
}

Result<std::string> make_header(const std::filesystem::path& path, std::span<const TensorData> tensors,
                                const std::map<std::string, std::string>& metadata) {
  json::object header;
  if (!metadata.empty()) header["__metadata__"] = json::value_from(metadata);
  std::uint64_t offset = 0;
  for (const TensorData& tensor : tensors) {
    const std::string where = fmt::format("{}: {}", path.string(), tensor.name);
    if (auto fits = check(tensor, where); !fits) return fits.error();
    if (tensor.name == "__metadata__" || header.contains(tensor.name)) {
      return Error{ErrorCode::invalid_argument, where, "a name that is taken", "unique names"};
    }
    const std::uint64_t end = offset + tensor.bytes.size();
    header[tensor.name] = {{"dtype", to_string(tensor.dtype)},
                           {"shape", json::value_from(tensor.shape)},
                           {"data_offsets", json::value_from(std::array{offset, end})}};
    offset = end;
  }
  std::string text = json::serialize(header);
  text.resize((text.size() + data_alignment - 1) / data_alignment * data_alignment, ' ');
  return text;
}

}  // namespace

Result<void> write_safetensors(const std::filesystem::path& path, std::span<const TensorData> tensors,
                               const std::map<std::string, std::string>& metadata) {
  const Result<std::string> header = make_header(path, tensors, metadata);
  if (!header) return header.error();
  Result<engram::DurableFile> file = engram::DurableFile::create(path);
  if (!file) return file.error();
  std::array<std::byte, 8> length{};
  for (std::size_t i = 0; i < length.size(); ++i) length[i] = static_cast<std::byte>(header->size() >> (8 * i));
  if (auto done = file->append(length); !done) return done;
  if (auto done = file->append(std::as_bytes(std::span(*header))); !done) return done;
  for (const TensorData& tensor : tensors) {
    if (auto done = file->append(tensor.bytes); !done) return done;
  }
  return file->commit();
}

}  // namespace tandem::gpu
