// Probe: where a forward pass shows its intermediate tensors, under the names that the golden files use. Off in
// serving.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "gpu/tensor.hpp"

namespace tandem::gpu {

class Probe {
 public:
  virtual ~Probe() = default;
  // `value` is valid during the call only; `shape` multiplies to its elements, the first dimension counts rows or
  // entries.
  virtual void record(const std::string& name, const Tensor& value, const std::vector<std::int64_t>& shape) = 0;
  // Positions of the prompt that is shown; 0: no more than those of the step. Tensors with a column an entry have the
  // columns of the whole prompt, whatever part of it a step holds.
  virtual std::int64_t prompt_positions() const { return 0; }
};

}  // namespace tandem::gpu
