// The first fault of a matrix is the one that is told.
#include "gpu/checkpoint/exl3_tensors.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "gpu/checkpoint/inventory.hpp"
#include "gpu/exl3/codebook.hpp"

namespace tandem::gpu {
namespace {

using exl3::tile_side;

Error mismatch(const TensorPlace& place, std::string expected) {
  return {ErrorCode::mismatch, place.where(), describe(place.entry->dtype, place.entry->shape), std::move(expected)};
}

Result<void> read_form(Exl3Place& place, const Exl3Wanted& wanted) {
  const TensorEntry& entry = *place.trellis.entry;
  const std::int64_t rows = exl3::padded_side(wanted.k) / tile_side, cols = exl3::padded_side(wanted.n) / tile_side;
  const bool fits = entry.dtype == DType::i16 && entry.shape.size() == 3 && entry.shape[0] == rows &&
                    entry.shape[1] == cols && entry.shape[2] % tile_side == 0 && entry.shape[2] >= tile_side &&
                    entry.shape[2] <= tile_side * exl3::bits_max;
  if (!fits) {
    return mismatch(place.trellis, fmt::format("I16 [{}, {}, 16 * bits], 1 to 8 bits, for {} inputs and {} outputs",
                                               rows, cols, wanted.k, wanted.n));
  }
  place.form.bits = static_cast<std::uint8_t>(entry.shape[2] / tile_side);
  place.k = rows * tile_side;
  place.n = cols * tile_side;
  return {};
}

// suh or su, svh or sv.
Result<TensorPlace> find_scales(const Checkpoint& checkpoint, const std::string& name, std::int64_t channels) {
  const TensorPlace* halves = checkpoint.find(name + "h");
  const TensorPlace* signs = checkpoint.find(name);
  const std::string expected = fmt::format("F16 [{}], or I16 [{}] as {}", channels, channels / tile_side, name);
  if (halves == nullptr && signs == nullptr) {
    return Error{ErrorCode::not_found, checkpoint.folder().string() + ": " + name + "h", "missing", expected};
  }
  const TensorPlace& place = halves != nullptr ? *halves : *signs;
  const StoredTensor stored =
      halves != nullptr ? StoredTensor{DType::f16, {channels}} : StoredTensor{DType::i16, {channels / tile_side}};
  if (place.entry->dtype != stored.dtype || place.entry->shape != stored.shape) return mismatch(place, expected);
  return place;
}

Result<void> find_codebook(const Checkpoint& checkpoint, Exl3Place& place, const std::string& module) {
  const TensorPlace* mcg = checkpoint.find(module + ".mcg");
  const TensorPlace* mul1 = checkpoint.find(module + ".mul1");
  if (mcg != nullptr && mul1 != nullptr) {
    return Error{ErrorCode::mismatch, mcg->where(), "both .mcg and .mul1", "one codebook"};
  }
  place.form.codebook = mul1 != nullptr  ? exl3::Codebook::mul1
                        : mcg != nullptr ? exl3::Codebook::mcg
                                         : exl3::Codebook::inst3;
  const TensorPlace* marker = mul1 != nullptr ? mul1 : mcg;
  if (marker == nullptr) return {};
  place.marker = *marker;
  const bool is_scalar = marker->entry->shape.empty() || marker->entry->shape == std::vector<std::int64_t>{1};
  if (marker->entry->dtype != DType::i32 || !is_scalar) return mismatch(*marker, "I32 scalar");
  return {};
}

}  // namespace

std::span<const char* const> exl3_suffixes() noexcept {
  static constexpr std::array suffixes{".trellis", ".suh", ".svh", ".su", ".sv", ".mcg", ".mul1"};
  return suffixes;
}

std::vector<std::string> exl3_modules(const Checkpoint& checkpoint, const ExpectedTensor& tensor) {
  const std::string module = tensor.module_name();
  if (tensor.slices == 1 || checkpoint.find(module + ".trellis") != nullptr) return {module};
  std::vector<std::string> modules;
  for (int g = 0; g < tensor.slices; ++g) modules.push_back(fmt::format("{}.slice.{}", module, g));
  return modules;
}

bool has_exl3(const Checkpoint& checkpoint, const ExpectedTensor& tensor) {
  for (const std::string& module : exl3_modules(checkpoint, tensor)) {
    for (const char* suffix : exl3_suffixes()) {
      if (checkpoint.find(module + suffix) != nullptr) return true;
    }
  }
  return false;
}

Result<Exl3Place> find_exl3(const Checkpoint& checkpoint, const Exl3Wanted& wanted) {
  Exl3Place place;
  const TensorPlace* trellis = checkpoint.find(wanted.module + ".trellis");
  if (trellis == nullptr) {
    return Error{ErrorCode::not_found, checkpoint.folder().string() + ": " + wanted.module + ".trellis", "missing",
                 "the tiles of a packed matrix"};
  }
  place.trellis = *trellis;
  if (auto ok = read_form(place, wanted); !ok) return ok.error();
  auto suh = find_scales(checkpoint, wanted.module + ".su", place.k);
  if (!suh) return suh.error();
  auto svh = find_scales(checkpoint, wanted.module + ".sv", place.n);
  if (!svh) return svh.error();
  place.suh = *suh;
  place.svh = *svh;
  if (auto ok = find_codebook(checkpoint, place, wanted.module); !ok) return ok.error();
  return place;
}

Result<void> check_marker(const Exl3Place& place) {
  if (place.marker.entry == nullptr) return {};
  std::array<std::byte, 4> bytes{};
  if (auto read = place.marker.shard->read(*place.marker.entry, 0, bytes); !read) return read;
  std::uint32_t value = 0;
  for (std::size_t i = 0; i < 4; ++i) value |= std::to_integer<std::uint32_t>(bytes[i]) << (8 * i);
  const std::uint32_t expected = exl3::hash_of(place.form.codebook).multiplier;
  if (value == expected) return {};
  return Error{ErrorCode::corrupt, place.marker.where(), fmt::format("0x{:08X}", value),
               fmt::format("0x{:08X}, the multiplier of codebook {}", expected, exl3::to_string(place.form.codebook))};
}

}  // namespace tandem::gpu
