// Writes a safetensors file: complete and on disk under its name, or not at all.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "engram/error.hpp"
#include "gpu/tensor.hpp"

namespace tandem::gpu {

// A tensor to write; `bytes` is row-major and must have the size that dtype and shape say.
struct TensorData {
  std::string name;
  DType dtype = DType::f32;
  std::vector<std::int64_t> shape;
  std::span<const std::byte> bytes;
};

// Writes the tensors in the given order. The header is padded so that the data begins at a multiple of 8.
// Errors: invalid_argument (a size that does not fit the shape, a name twice or reserved), io.
Result<void> write_safetensors(const std::filesystem::path& path, std::span<const TensorData> tensors,
                               const std::map<std::string, std::string>& metadata = {});

}  // namespace tandem::gpu
