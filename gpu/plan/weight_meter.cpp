// The sizes of parts are those of resident_form.hpp; which parts there are is decided by the classes that loading uses.
#include "gpu/plan/weight_meter.hpp"

#include <numeric>
#include <string_view>

#include "gpu/checkpoint/exl3_loader.hpp"
#include "gpu/checkpoint/resident_form.hpp"
#include "gpu/checkpoint/weight_walk.hpp"

namespace tandem::gpu {
namespace {

class WeightMeter final : public WeightSlicer {
 public:
  using WeightSlicer::WeightSlicer;
  const std::array<GroupBytes, weight_groups>& groups() const noexcept { return groups_; }

 private:
  Result<std::vector<Linear>> cut(const Found& found, Range rows, std::span<const Range> columns) override {
    std::vector<Linear> parts;
    for (const Range& range : columns) {
      Result<Linear> part =
          found.storage == Storage::exl3 ? packed_part(found, rows, range) : part_of(found, rows, range);
      if (!part) return part.error();
      GroupBytes& group = groups_[static_cast<std::size_t>(group_of(*found.tensor))];
      group.codes += part->codes.bytes;
      group.scales += part->scales.bytes;
      parts.push_back(std::move(*part));
    }
    return parts;
  }

  Result<Buffer> cut_plain(const Found& found, std::int64_t cols, Range rows) override {
    const Buffer values{nullptr, form_bytes(WeightFormat::f32, rows.count, cols).codes};
    groups_[static_cast<std::size_t>(group_of(*found.tensor))].codes += values.bytes;
    return values;
  }

  static Linear part_of(const Found& found, Range rows, Range columns) {
    Linear part;
    part.format = resident_format(found.storage, found.tensor->use);
    part.n = rows.count;
    part.k = columns.count;
    give_size(part, form_bytes(part.format, part.n, part.k));
    return part;
  }

  Result<Linear> packed_part(const Found& found, Range rows, Range columns) const {
    const Result<FoundPacked> packed = find_packed(found, rows);
    if (!packed) return packed.error();
    const Result<Exl3Part> stored = stored_part(packed->place, packed->wanted, {packed->rows, columns});
    if (!stored) return stored.error();
    Linear part;
    part.format = WeightFormat::exl3;
    part.exl3 = packed->place.form;
    part.n = rows.count;
    part.k = columns.count;
    give_size(part, form_bytes(part.exl3, stored->inputs.count, stored->outputs.count));
    return part;
  }

  static void give_size(Linear& part, ResidentBytes bytes) {
    part.codes.bytes = bytes.codes;
    part.scales.bytes = bytes.scales;
  }

  std::array<GroupBytes, weight_groups> groups_{};
};

// Packed matrices of the tensors that will be loaded, and their widths.
Result<void> count_packed(const Checkpoint& checkpoint, std::span<const ExpectedTensor> inventory, bool with_draft,
                          MeasuredWeights& measured) {
  for (const ExpectedTensor& tensor : inventory) {
    if (tensor.group == TensorGroup::dspark && !with_draft) continue;
    if (tensor.use != TensorUse::matrix || checkpoint.find(tensor.name) != nullptr) continue;
    if (!has_exl3(checkpoint, tensor)) continue;
    const std::vector<std::string> modules = exl3_modules(checkpoint, tensor);
    const std::int64_t rows = tensor.shape.at(0) / static_cast<std::int64_t>(modules.size());
    for (const std::string& module : modules) {
      const Result<Exl3Place> place = find_exl3(checkpoint, {module, rows, tensor.shape.at(1)});
      if (!place) return place.error();
      ++measured.packed_matrices;
      if (group_of(tensor) == WeightGroup::routed_experts) ++measured.packed_experts;
      measured.packed_weights_of_bits[place->form.bits] += static_cast<std::uint64_t>(place->k * place->n);
    }
  }
  return {};
}

bool names_part(std::string_view name, std::string_view part) noexcept {
  return name.find(part) != std::string_view::npos;
}

}  // namespace

const char* to_string(WeightGroup group) noexcept {
  static constexpr std::array<const char*, weight_groups> names{
      "routed_experts", "shared_experts", "attention",     "indexer", "router_and_mix", "embedding",
      "head",           "engram",         "draft_experts", "draft",   "vision"};
  return names[static_cast<std::size_t>(group)];
}

WeightGroup group_of(const ExpectedTensor& tensor) noexcept {
  const bool is_routed = names_part(tensor.name, ".ffn.experts.");
  if (tensor.group == TensorGroup::dspark) return is_routed ? WeightGroup::draft_experts : WeightGroup::draft;
  if (tensor.group == TensorGroup::engram) return WeightGroup::engram;
  if (tensor.group == TensorGroup::global) {
    if (tensor.use == TensorUse::row_table) return WeightGroup::embedding;
    return tensor.use == TensorUse::matrix ? WeightGroup::head : WeightGroup::router_and_mix;
  }
  if (is_routed) return WeightGroup::routed_experts;
  if (names_part(tensor.name, ".ffn.shared_experts.")) return WeightGroup::shared_experts;
  if (names_part(tensor.name, ".attn.indexer.") || names_part(tensor.name, ".attn.compressor."))
    return WeightGroup::indexer;
  return tensor.use == TensorUse::matrix ? WeightGroup::attention : WeightGroup::router_and_mix;
}

std::uint64_t MeasuredWeights::bytes() const noexcept {
  return std::accumulate(groups.begin(), groups.end(), std::uint64_t{0},
                         [](std::uint64_t sum, const GroupBytes& group) { return sum + group.all(); });
}

double MeasuredWeights::packed_bits() const noexcept {
  double weights = 0, bits = 0;
  for (const auto& [width, count] : packed_weights_of_bits) {
    weights += static_cast<double>(count);
    bits += static_cast<double>(count) * width;
  }
  return weights == 0 ? 0 : bits / weights;
}

Result<MeasuredWeights> measure_weights(const Checkpoint& checkpoint, const ModelConfig& config,
                                        const MeterRequest& request) {
  if (auto divisible = check_ranks(config, request.share.ranks); !divisible) return divisible.error();
  const std::vector<ExpectedTensor> inventory = make_inventory(config);
  if (auto complete = check_inventory(checkpoint, config, inventory); !complete) return complete.error();
  const bool with_draft = request.draft && config.dspark.stages > 0;
  MeasuredWeights measured;
  WeightMeter meter(checkpoint, inventory, request.share);
  walk_weights(meter, measured.shapes, config, with_draft);
  if (meter.error()) return *meter.error();
  measured.shapes.bytes = meter.resident_bytes();
  measured.groups = meter.groups();
  if (auto counted = count_packed(checkpoint, inventory, with_draft, measured); !counted) return counted.error();
  for (const auto& [name, place] : checkpoint.tensors()) {
    if (!is_vision_tensor(name)) continue;
    measured.groups[static_cast<std::size_t>(WeightGroup::vision)].codes += place.entry->bytes;
  }
  return measured;
}

}  // namespace tandem::gpu
