// acc(s) = XOR over i <= s of class[p - i] * multiplier[i]; column (order s+1, head) = acc(s) mod prime + offset.
//
// Looking back stops for good at the first dead or missing position: that one and everything older count as the pad
// class.
#include "engram/hash.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace tandem::engram {
namespace {

Result<void> check_classes(std::span<const ClassId> classes, std::int64_t count) {
  for (const ClassId id : classes) {
    if (id != dead_class && (id < 0 || id >= count)) {
      return Error{ErrorCode::out_of_range, "Engram token class", std::to_string(id),
                   fmt::format("0 to {}, or dead", count - 1)};
    }
  }
  return {};
}

// The chunk with what came before it, addressed by distance from a position of the chunk.
struct History {
  std::span<const ClassId> before;
  std::span<const ClassId> classes;

  ClassId back(std::size_t position, std::size_t distance) const noexcept {
    if (distance <= position) return classes[position - distance];
    const std::size_t missing = distance - position;
    return missing <= before.size() ? before[before.size() - missing] : dead_class;
  }
};

void hash_position(const Geometry& geometry, const LayerGeometry& layer, const History& history, std::size_t position,
                   std::span<RowId> out) {
  const auto heads = static_cast<std::size_t>(geometry.heads);
  bool blocked = false;
  std::uint64_t accumulated = 0;
  for (std::size_t distance = 0; distance < layer.multipliers.size(); ++distance) {
    const ClassId seen = history.back(position, distance);
    blocked = blocked || seen == dead_class;
    const ClassId used = blocked ? geometry.pad_class : seen;
    accumulated ^= static_cast<std::uint64_t>(used) * layer.multipliers[distance];
    if (distance == 0) continue;  // there is no 1-gram table
    for (std::size_t column = (distance - 1) * heads; column < distance * heads; ++column) {
      out[column] = RowId{static_cast<std::int32_t>(accumulated % layer.primes[column] + layer.offsets[column])};
    }
  }
}

}  // namespace

Result<void> hash_rows(const Geometry& geometry, std::size_t layer_index, std::span<const ClassId> before,
                       std::span<const ClassId> classes, std::span<RowId> out) {
  const auto columns = static_cast<std::size_t>(geometry.columns());
  if (layer_index >= geometry.layers.size() || out.size() != classes.size() * columns) {
    return Error{ErrorCode::invalid_argument, "hash_rows",
                 fmt::format("layer index {} of {}, room for {} rows", layer_index, geometry.layers.size(), out.size()),
                 fmt::format("{} columns for each of {} positions", columns, classes.size())};
  }
  const std::size_t kept = std::min(before.size(), static_cast<std::size_t>(geometry.look_back()));
  const History history{before.last(kept), classes};
  if (auto checked = check_classes(history.before, geometry.classes); !checked) return checked.error();
  if (auto checked = check_classes(classes, geometry.classes); !checked) return checked.error();
  for (std::size_t position = 0; position < classes.size(); ++position) {
    const auto rows = out.subspan(position * columns, columns);
    if (classes[position] == dead_class) {
      std::fill(rows.begin(), rows.end(), no_row);
    } else {
      hash_position(geometry, geometry.layers[layer_index], history, position, rows);
    }
  }
  return {};
}

}  // namespace tandem::engram
