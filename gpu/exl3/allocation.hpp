// Which matrix gets how many bits, so that an average is met and the model loses least.
//
// A group is a set of matrices that must agree (the routed experts of one layer). Its sensitivity is measured: the loss
// of the whole model per unit of relative squared error in the group's weights. With the error that each number of bits
// leaves, the loss of a choice is known, and bits go one by one to the group where a bit of storage buys most.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "engram/error.hpp"
#include "gpu/exl3/form.hpp"

namespace tandem::gpu::exl3 {

struct BitGroup {
  std::string name;
  std::int64_t weights = 0;  // in all its matrices
  double sensitivity = 0;    // >= 0
  int bits_min = 2;
  int bits_max = 8;
};

struct BitBudget {
  double bits = 3.0;  // average over all weights of all groups, at most
  Codebook codebook = Codebook::mul1;
};

// Returns the bits of each group. Errors: invalid_argument (a budget below the sum of the smallest choices, a group
// without weights or with a negative sensitivity).
Result<std::vector<int>> allocate_bits(std::span<const BitGroup> groups, const BitBudget& budget);

}  // namespace tandem::gpu::exl3
