// One walk over the inventory, the list that loading uses as well.
#include "gpu/exl3/pack_plan.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>

namespace tandem::gpu::exl3 {
namespace {

constexpr std::size_t shard_matrices_max = 64;

bool is_routed_expert(const ExpectedTensor& tensor) {
  return tensor.name.find(".ffn.experts.") != std::string::npos;
}

// Small matrices that are read by row, or whose sides do not fit the format, stay as they are.
bool is_packed(const ExpectedTensor& tensor, PackLayout layout) {
  if (tensor.use != TensorUse::matrix || tensor.name.find("markov_head") != std::string::npos) return false;
  const std::int64_t n = tensor.shape.at(0) / tensor.slices, k = tensor.shape.at(1);
  if (n % block_side != 0 || k % block_side != 0) return false;
  return layout == PackLayout::whole || (is_routed_expert(tensor) && tensor.group == TensorGroup::layer);
}

// "layers.3.ffn.experts.7.w1" and ".w3" of all experts share a name, and so on.
std::string group_name(const ExpectedTensor& tensor) {
  std::string name = tensor.module_name();
  const bool is_shared = name.find(".shared_experts.") != std::string::npos;
  if (!is_routed_expert(tensor) && !is_shared) return name;
  const std::string part = name.ends_with(".w2") ? "w2" : "w1 and w3";
  return name.substr(0, name.find(is_shared ? ".shared_experts." : ".experts.")) +
         (is_shared ? ".shared_experts " : ".experts ") + part;
}

class Planner {
 public:
  explicit Planner(PackWidths widths) : widths_(widths) {}

  void add(const ExpectedTensor& tensor) {
    const std::string source = tensor.module_name();
    const std::int64_t rows = tensor.shape.at(0) / tensor.slices;
    const std::size_t group = group_of(tensor);
    for (int g = 0; g < tensor.slices; ++g) {
      const std::string module = tensor.slices == 1 ? source : fmt::format("{}.slice.{}", source, g);
      plan_.matrices.push_back({module, source, g * rows, rows, tensor.shape.at(1), group, shard_of(tensor)});
      plan_.groups[group].weights += rows * tensor.shape.at(1);
      plan_.members[group].push_back(module);
    }
  }

  PackPlan take() { return std::move(plan_); }

 private:
  std::size_t group_of(const ExpectedTensor& tensor) {
    const auto [at, is_new] = groups_.try_emplace(group_name(tensor), plan_.groups.size());
    if (!is_new) return at->second;
    BitGroup group;
    group.name = at->first;
    const int fixed = tensor.group == TensorGroup::dspark   ? widths_.draft
                      : tensor.group == TensorGroup::global ? widths_.head
                                                            : 0;
    if (fixed > 0) group.bits_min = group.bits_max = fixed;
    plan_.groups.push_back(std::move(group));
    plan_.members.emplace_back();
    return at->second;
  }

  std::size_t shard_of(const ExpectedTensor& tensor) {
    const std::string part = fmt::format("{} {}", static_cast<int>(tensor.group), tensor.layer);
    if (part != part_ || in_shard_ == shard_matrices_max) {
      part_ = part;
      in_shard_ = 0;
      ++plan_.shards;
    }
    ++in_shard_;
    return plan_.shards - 1;
  }

  PackWidths widths_;
  PackPlan plan_;
  std::map<std::string, std::size_t> groups_;
  std::string part_;
  std::size_t in_shard_ = 0;
};

}  // namespace

PackPlan make_pack_plan(std::span<const ExpectedTensor> inventory, PackLayout layout, PackWidths widths) {
  Planner planner(widths);
  for (const ExpectedTensor& tensor : inventory) {
    if (is_packed(tensor, layout)) planner.add(tensor);
  }
  return planner.take();
}

}  // namespace tandem::gpu::exl3
