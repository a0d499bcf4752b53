// Modules without `quant_format` are native and have no bits.
#include "gpu/weights_files/bits_map.hpp"

#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>

#include "engram/text_file.hpp"
#include "gpu/checkpoint/strict_json.hpp"
#include "gpu/exl3/form.hpp"

namespace tandem::gpu {
namespace {

namespace json = boost::json;

constexpr std::uint64_t bits_map_bytes_max = std::uint64_t{256} << 20;  // 47,900 matrices have about 30 MB

}  // namespace

Result<BitsMap> parse_bits_map(std::string_view text, const std::filesystem::path& file) {
  const auto root = parse_strict_json(text, file.string());
  if (!root) return root.error();
  const json::value* storage = root->if_contains("tensor_storage");
  if (storage == nullptr) return Error{ErrorCode::not_found, file.string() + ": tensor_storage", "missing", "a map"};
  const json::object* modules = storage->if_object();
  if (modules == nullptr) return Error{ErrorCode::bad_format, file.string() + ": tensor_storage", "no object", "a map"};
  BitsMap map{file, {}};
  for (const auto& [key, value] : *modules) {
    const json::object* module = value.if_object();
    const json::value* format = module == nullptr ? nullptr : module->if_contains("quant_format");
    if (module != nullptr && (format == nullptr || *format != "exl3")) continue;
    const json::value* bits = module == nullptr ? nullptr : module->if_contains("bits_per_weight");
    const std::int64_t* whole = bits == nullptr ? nullptr : bits->if_int64();
    if (whole == nullptr || *whole < 1 || *whole > exl3::bits_max) {
      return Error{ErrorCode::bad_format, file.string() + ": " + std::string(key) + ": bits_per_weight",
                   bits == nullptr ? "missing" : json::serialize(*bits).substr(0, 80), "a whole number from 1 to 8"};
    }
    map.bits.emplace(std::string(key), static_cast<int>(*whole));
  }
  return map;
}

Result<BitsMap> read_bits_map(const std::filesystem::path& folder) {
  const auto file = folder / bits_map_file_name;
  const auto text = engram::read_text(file, bits_map_bytes_max);
  if (!text) return text.error();
  return parse_bits_map(*text, file);
}

}  // namespace tandem::gpu
