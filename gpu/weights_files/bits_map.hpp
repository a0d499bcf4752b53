// BitsMap: bits a weight of every packed matrix, as the packer's own record lists them (quantization_config.json,
// `tensor_storage`). The loader takes bits from the tensors alone; this is what they are held against.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <string_view>

#include "engram/error.hpp"

namespace tandem::gpu {

inline constexpr const char* bits_map_file_name = "quantization_config.json";

struct BitsMap {
  std::filesystem::path file;
  std::map<std::string, int> bits;  // module name without ".trellis" -> 1 to 8
};

// Parses the text of the record. Errors: bad_format naming the module; not_found without `tensor_storage`.
Result<BitsMap> parse_bits_map(std::string_view json, const std::filesystem::path& file);

// Reads the record of a folder. Errors: not_found (no such file), io, and those of parse_bits_map().
Result<BitsMap> read_bits_map(const std::filesystem::path& folder);

}  // namespace tandem::gpu
