// The first dimension of a trellis runs along the inputs: a cut of the inputs is one range of the file, a cut of the
// outputs keeps a part of every stored row.
#include "gpu/checkpoint/exl3_loader.hpp"

#include <fmt/format.h>

#include "gpu/numeric/bf16.hpp"

namespace tandem::gpu {
namespace {

using exl3::block_side;
using exl3::tile_side;

// The range in stored channels, which are padded to whole blocks at the matrix's own end.
Result<Range> whole_blocks(const Exl3Place& place, const char* what, Range range, std::int64_t channels) {
  const std::int64_t last = range.first + range.count;
  const bool ends_well = last % block_side == 0 || last == channels;
  if (range.first % block_side == 0 && ends_well && range.count > 0 && last <= channels) {
    return Range{range.first, exl3::padded_side(range.count)};
  }
  return Error{ErrorCode::invalid_argument, place.trellis.where(),
               fmt::format("a cut at {} {} to {}", what, range.first, last),
               fmt::format("cuts at multiples of {} (a Hadamard block) up to {}", block_side, channels)};
}

// Scales of the channels `range`, from FP16 values or from packed signs.
Result<void> read_scales(TensorStream& stream, const TensorPlace& place, Range range, std::uint16_t* out) {
  constexpr Range all{0, 1};
  if (place.entry->dtype == DType::f16) {
    const ColumnTarget target{all, reinterpret_cast<std::byte*>(out)};
    return stream.read_into(place, {1, 1, 2}, range, {&target, 1});
  }
  const auto words = stream.read(place, {1, 1, 2}, {range.first / tile_side, range.count / tile_side}, {&all, 1});
  if (!words) return words.error();
  const auto* signs = words->front().as<const std::uint16_t>();
  for (std::int64_t i = 0; i < range.count; ++i) {
    out[i] = float_to_f16(((signs[i / tile_side] >> (i % tile_side)) & 1) != 0 ? -1.0F : 1.0F);
  }
  return {};
}

}  // namespace

Result<Exl3Part> stored_part(const Exl3Place& place, const Exl3Wanted& wanted, const Exl3Part& part) {
  const Result<Range> inputs = whole_blocks(place, "inputs", part.inputs, wanted.k);
  if (!inputs) return inputs.error();
  const Result<Range> outputs = whole_blocks(place, "outputs", part.outputs, wanted.n);
  if (!outputs) return outputs.error();
  return Exl3Part{*outputs, *inputs};
}

Result<Linear> load_exl3(TensorStream& stream, const Exl3Place& place, const Exl3Wanted& wanted, const Exl3Part& part) {
  const Result<Exl3Part> stored = stored_part(place, wanted, part);
  if (!stored) return stored.error();
  if (auto marker = check_marker(place); !marker) return marker.error();
  Linear linear;
  linear.name = wanted.module;
  linear.format = WeightFormat::exl3;
  linear.exl3 = place.form;
  linear.n = part.outputs.count;
  linear.k = part.inputs.count;
  const std::int64_t tile_bytes = 2 * place.form.tile_words();
  const std::int64_t strip_bytes = stored->inputs.count / tile_side * tile_bytes;
  linear.codes = Buffer::host(static_cast<std::size_t>(stored->outputs.count / tile_side * strip_bytes));
  std::vector<ColumnTarget> strips;
  for (std::int64_t first = 0; first < stored->outputs.count; first += tile_side) {
    strips.push_back(
        {{stored->outputs.first + first, tile_side}, linear.codes.data.get() + first / tile_side * strip_bytes});
  }
  const PlaneLayout tiles{tile_side, tile_side, tile_bytes};
  if (auto done = stream.read_into(place.trellis, tiles, stored->inputs, strips); !done) return done.error();
  linear.scales = Buffer::host(static_cast<std::size_t>(2 * (stored->inputs.count + stored->outputs.count)));
  auto* scales = linear.scales.as<std::uint16_t>();
  if (auto done = read_scales(stream, place.suh, stored->inputs, scales); !done) return done.error();
  if (auto done = read_scales(stream, place.svh, stored->outputs, scales + stored->inputs.count); !done)
    return done.error();
  return linear;
}

}  // namespace tandem::gpu
