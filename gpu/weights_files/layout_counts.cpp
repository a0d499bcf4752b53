// Counting first, judging afterwards.
#include "gpu/weights_files/layout_counts.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <map>
#include <optional>

#include "gpu/checkpoint/exl3_tensors.hpp"
#include "gpu/checkpoint/layers.hpp"

namespace tandem::gpu {
namespace {

constexpr std::size_t missing_told = 8;

struct ShardNumber {
  std::string stem;
  std::size_t number = 0, size = 0;
};

std::optional<std::size_t> whole_number(std::string_view text) {
  std::size_t value = 0;
  const auto [end, failed] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (failed != std::errc() || end != text.data() + text.size() || text.empty()) return std::nullopt;
  return value;
}

// "model-00003-of-00048" -> model, 3, 48.
std::optional<ShardNumber> parse_shard_number(const std::string& stem) {
  const std::size_t of = stem.rfind("-of-");
  const std::size_t dash = of == std::string::npos ? std::string::npos : stem.rfind('-', of - 1);
  if (of == 0 || dash == std::string::npos) return std::nullopt;
  const auto number = whole_number(std::string_view(stem).substr(dash + 1, of - dash - 1));
  const auto size = whole_number(std::string_view(stem).substr(of + 4));
  if (!number || !size || *number < 1 || *number > *size || *size > 99'999) return std::nullopt;
  return ShardNumber{stem.substr(0, dash), *number, *size};
}

bool has_packed_tensor(const SafetensorsFile& shard) {
  return std::any_of(shard.tensors().begin(), shard.tensors().end(),
                     [](const TensorEntry& tensor) { return tensor.name.ends_with(".trellis"); });
}

std::vector<ShardFamily> find_families(const Checkpoint& checkpoint) {
  std::map<std::string, ShardFamily> families;
  for (const SafetensorsFile& shard : checkpoint.shards()) {
    const auto number = parse_shard_number(shard.path().stem().string());
    if (!number) continue;
    const auto folder = shard.path().parent_path();
    ShardFamily& family = families[fmt::format("{}/{} of {}", folder.string(), number->stem, number->size)];
    family.folder = folder;
    family.stem = number->stem;
    family.size = number->size;
    family.there.insert(number->number);
    family.has_packed = family.has_packed || has_packed_tensor(shard);
  }
  std::vector<ShardFamily> list;
  for (auto& [name, family] : families) list.push_back(std::move(family));
  return list;
}

bool is_routed_expert(const ExpectedTensor& tensor) {
  return tensor.group == TensorGroup::layer && tensor.name.find(".ffn.experts.") != std::string::npos;
}

Error incomplete(const ShardFamily& family) {
  std::vector<std::string> missing;
  for (std::size_t number = 1; number <= family.size && missing.size() < missing_told; ++number) {
    if (!family.there.contains(number)) missing.push_back(std::to_string(number));
  }
  return {ErrorCode::not_found, (family.folder / family.stem).string(),
          fmt::format("{} of {} shards; missing: {}{}", family.there.size(), family.size, fmt::join(missing, ", "),
                      family.there.size() + missing.size() < family.size ? ", ..." : ""),
          fmt::format("all {}", family.size)};
}

}  // namespace

const char* LayoutCounts::layout() const noexcept {
  if (banks > 0) return "expert banks";
  return packed_matrices > 0 ? "whole pack" : "official";
}

std::string LayoutCounts::summary() const {
  std::string text = fmt::format("{}: {} shards", layout(), shards);
  if (banks > 0) text += fmt::format(" with {} banks of {} expert matrices", banks, banked_experts);
  return text +
         fmt::format(", {} packed and {} native matrices, {} Engram tables", packed_matrices, native_matrices, tables);
}

LayoutCounts count_layout(const Checkpoint& checkpoint, const ModelConfig& config,
                          std::span<const ExpectedTensor> inventory) {
  LayoutCounts counts;
  counts.shards = checkpoint.shards().size();
  counts.families = find_families(checkpoint);
  counts.tables_expected = config.engram.layers.size();
  const auto banks = find_banks(checkpoint.folder());
  if (banks) counts.banks = banks->banks.size();
  for (const ExpectedTensor& tensor : inventory) {
    const bool is_native = checkpoint.find(tensor.name) != nullptr;
    if (tensor.group == TensorGroup::engram_table && is_native) ++counts.tables;
    if (tensor.use != TensorUse::matrix) continue;
    if (is_routed_expert(tensor)) ++counts.expert_matrices;
    if (is_native) {
      ++counts.native_matrices;
    } else if (has_exl3(checkpoint, tensor)) {
      counts.packed_matrices += exl3_modules(checkpoint, tensor).size();
      if (is_routed_expert(tensor)) ++counts.banked_experts;
    }
  }
  return counts;
}

std::vector<Error> find_count_faults(const LayoutCounts& counts, const std::filesystem::path& folder) {
  std::vector<Error> faults;
  const bool is_official = counts.packed_matrices == 0 && counts.banks == 0;
  for (const ShardFamily& family : counts.families) {
    if (family.there.size() == family.size || !(family.has_packed || is_official)) continue;
    faults.push_back(incomplete(family));
  }
  if (counts.banks > 0 && counts.banked_experts != counts.expert_matrices) {
    faults.push_back({ErrorCode::not_found, (folder / "exl3").string(),
                      fmt::format("{} matrices of routed experts", counts.banked_experts),
                      fmt::format("{}: every expert of the backbone in a bank", counts.expert_matrices)});
  }
  if (counts.tables != counts.tables_expected) {
    faults.push_back({ErrorCode::not_found, folder.string(), fmt::format("{} Engram tables", counts.tables),
                      fmt::format("{}", counts.tables_expected)});
  }
  return faults;
}

}  // namespace tandem::gpu
