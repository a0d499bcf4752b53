// TileQuantiser: the closed walk whose weights come nearest to 256 targets.
//
// The walk is a path through a graph of 2^(16 - bits) nodes (the low bits of a state), with 2^bits edges into each:
//   cost_t[e] = min over k of cost_{t-1}[s >> bits] + (w(s) - target_t)^2,   s = k << (16 - bits) | e
// Two passes close it: the first starts anywhere, half a tile early, and shows which node to pass between the end and
// the beginning; the second starts there and ends there. Near the optimum, which would need a pass for each node. Ties
// fall to the smaller k; the result is the same on every instruction set.
//
// Invariant: is_closed_walk holds for every result, whatever the targets (NaN included).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "gpu/exl3/tile.hpp"

namespace tandem::gpu::exl3 {

class TileQuantiser {
 public:
  explicit TileQuantiser(Form form);

  // Finds a walk for targets in stream order. Returns the sum of squared errors. Allocates nothing.
  double quantise(std::span<const float, tile_weights> targets, States& walk);

  Form form() const noexcept { return form_; }

 private:
  void step(int t, float target, bool keeps_choice);
  int node_before(int t, int node) const noexcept;

  Form form_;
  int nodes_;
  std::span<const float> weights_;  // of all states
  std::vector<float> cost_, next_;  // of the nodes, padded by a vector
  std::vector<std::uint8_t> best_;  // [256, nodes]: k of the best edge
};

}  // namespace tandem::gpu::exl3
