// The step over all edges is the vector kernel; the two passes and the way back are plain.
#include "gpu/cpu/simd/targets.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "gpu/exl3/viterbi.cpp"
#include <hwy/foreach_target.h>

#include <hwy/highway.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "gpu/cpu/simd/lanes_inl.hpp"
#include "gpu/exl3/codebook.hpp"
#include "gpu/exl3/viterbi.hpp"

#ifndef TANDEM_GPU_EXL3_VITERBI_STEP
#define TANDEM_GPU_EXL3_VITERBI_STEP
namespace tandem::gpu::exl3 {

struct ViterbiStep {
  int bits = 0;
  const float* weights = nullptr;  // [65536]
  float target = 0;
  const float* before = nullptr;  // [nodes + a vector]
  float* after = nullptr;         // [nodes]
  std::uint8_t* best = nullptr;   // [nodes]; null: the way back does not come by here
};
inline constexpr float unreachable = 1e30F;

}  // namespace tandem::gpu::exl3
#endif

HWY_BEFORE_NAMESPACE();
namespace tandem::gpu::simd {
namespace HWY_NAMESPACE {

// Blocks of nodes whose minima are found side by side, so that their chains of comparisons overlap. Their loops are
// unrolled by name: otherwise the minima live in memory, and a step takes twice as long.
constexpr int blocks = 4;

// The costs of the nodes that the edges s .. s + lanes - 1 come from: one node for all lanes, or a few neighbours that
// are spread over the lanes.
template <bool one_node>
struct CostsBefore {
  explicit CostsBefore(const exl3::ViterbiStep& in) : step(in) {}
  HWY_INLINE V operator()(int s) const { return hn::Set(Floats(), step.before[s >> step.bits]); }
  const exl3::ViterbiStep& step;
};

#if HWY_TARGET != HWY_SCALAR
template <>
struct CostsBefore<false> {
  explicit CostsBefore(const exl3::ViterbiStep& in)
      : step(in), index(hn::SetTableIndices(Floats(), lane_nodes(in).lane)) {}
  HWY_INLINE V operator()(int s) const {
    return hn::TableLookupLanes(hn::LoadU(Floats(), step.before + (s >> step.bits)), index);
  }
  struct LaneNodes {
    HWY_ALIGN std::int32_t lane[lanes];
  };
  static LaneNodes lane_nodes(const exl3::ViterbiStep& step) {
    LaneNodes nodes{};
    for (int i = 0; i < static_cast<int>(hn::MaxLanes(Floats())); ++i) nodes.lane[i] = i >> step.bits;
    return nodes;
  }
  const exl3::ViterbiStep& step;
  decltype(hn::SetTableIndices(Floats(), static_cast<const std::int32_t*>(nullptr))) index;
};
#endif

template <bool one_node, bool keeps_choice>
HWY_INLINE void step_nodes(const exl3::ViterbiStep& step) {
  constexpr Floats d;
  constexpr Ints di;
  constexpr int width = static_cast<int>(hn::MaxLanes(d));
  const hn::Rebind<std::uint8_t, Floats> d8;
  const int nodes = 1 << (16 - step.bits), branches = 1 << step.bits;
  const V target = hn::Set(d, step.target);
  const CostsBefore<one_node> before(step);
  for (int e = 0; e < nodes; e += blocks * width) {
    V least[blocks];
    hn::Vec<Ints> choice[blocks];
    HWY_UNROLL(blocks)
    for (int b = 0; b < blocks; ++b) {
      least[b] = hn::Set(d, 2 * exl3::unreachable);
      choice[b] = hn::Zero(di);
    }
    for (int k = 0; k < branches; ++k) {
      const auto edge = hn::Set(di, k);
      HWY_UNROLL(blocks)
      for (int b = 0; b < blocks; ++b) {
        const int s = k * nodes + e + b * width;
        const V error = hn::Sub(hn::LoadU(d, step.weights + s), target);
        const V cost = fused(error, error, before(s));
        if constexpr (keeps_choice) {
          const auto better = hn::RebindMask(di, hn::Lt(cost, least[b]));
          choice[b] = hn::IfThenElse(better, edge, choice[b]);
        }
        least[b] = hn::Min(cost, least[b]);
      }
    }
    HWY_UNROLL(blocks)
    for (int b = 0; b < blocks; ++b) {
      hn::StoreU(least[b], d, step.after + e + b * width);
      if constexpr (keeps_choice) hn::StoreU(hn::DemoteTo(d8, choice[b]), d8, step.best + e + b * width);
    }
  }
}

// ThreadSanitizer leaves it alone: all that it writes is its TileQuantiser's own, a thread's object, and watching the
// 2^16 edges of each of 384 steps a tile takes a hundred times as long as going over them.
__attribute__((no_sanitize("thread"))) void StepAllNodes(const exl3::ViterbiStep& step) {
  constexpr int width = static_cast<int>(hn::MaxLanes(Floats()));
  const bool one_node = (1 << step.bits) >= width;
  if (step.best == nullptr) return one_node ? step_nodes<true, false>(step) : step_nodes<false, false>(step);
  return one_node ? step_nodes<true, true>(step) : step_nodes<false, true>(step);
}

}  // namespace HWY_NAMESPACE
}  // namespace tandem::gpu::simd
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tandem::gpu::simd {

HWY_EXPORT(StepAllNodes);

static void step_all_nodes(const exl3::ViterbiStep& step) {
  HWY_DYNAMIC_DISPATCH(StepAllNodes)(step);
}

}  // namespace tandem::gpu::simd

namespace tandem::gpu::exl3 {
namespace {

// Keeps the cost of any path far below `unreachable`; sensible targets are a few units.
constexpr float target_max = 1e6F;

}  // namespace

TileQuantiser::TileQuantiser(Form form)
    : form_(form), nodes_(1 << (16 - form.bits)), weights_(weights_of_states(form.codebook)) {
  const auto nodes = static_cast<std::size_t>(nodes_);
  cost_.resize(nodes + simd::lanes);
  next_.resize(nodes + simd::lanes);
  best_.resize(nodes * tile_weights);
}

void TileQuantiser::step(int t, float target, bool keeps_choice) {
  std::uint8_t* best = best_.data() + static_cast<std::size_t>(t) * static_cast<std::size_t>(nodes_);
  simd::step_all_nodes(
      {form_.bits, weights_.data(), target, cost_.data(), next_.data(), keeps_choice ? best : nullptr});
  std::swap(cost_, next_);
}

int TileQuantiser::node_before(int t, int node) const noexcept {
  const int k = best_[static_cast<std::size_t>(t) * static_cast<std::size_t>(nodes_) + static_cast<std::size_t>(node)];
  return (k * nodes_ + node) >> form_.bits;
}

double TileQuantiser::quantise(std::span<const float, tile_weights> targets, States& walk) {
  constexpr int half = tile_weights / 2;
  std::array<float, tile_weights> bounded;
  std::transform(targets.begin(), targets.end(), bounded.begin(), [](float target) {
    return target > -target_max && target < target_max ? target
           : std::isnan(target)                        ? 0.0F
                                                       : std::copysign(target_max, target);
  });
  std::fill(cost_.begin(), cost_.end(), 0.0F);
  for (int i = 0; i < tile_weights; ++i) {
    const int t = (i + half) % tile_weights;
    step(t, bounded[static_cast<std::size_t>(t)], i >= half);
  }
  auto wrap = static_cast<int>(std::min_element(cost_.begin(), cost_.begin() + nodes_) - cost_.begin());
  for (int t = half - 1; t >= 0; --t) wrap = node_before(t, wrap);

  std::fill(cost_.begin(), cost_.end(), unreachable);
  cost_[static_cast<std::size_t>(wrap)] = 0;
  for (int t = 0; t < tile_weights; ++t) step(t, bounded[static_cast<std::size_t>(t)], true);
  double error = 0;
  for (int t = tile_weights - 1, node = wrap; t >= 0; --t) {
    const auto at = static_cast<std::size_t>(t);
    const int k = best_[at * static_cast<std::size_t>(nodes_) + static_cast<std::size_t>(node)];
    const int state = k * nodes_ + node;
    walk[at] = static_cast<std::uint16_t>(state);
    const double miss = double{weights_[static_cast<std::size_t>(state)]} - targets[at];
    error += miss * miss;
    node = state >> form_.bits;
  }
  return error;
}

}  // namespace tandem::gpu::exl3
#endif
