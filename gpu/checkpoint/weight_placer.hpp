// WeightPlacer: what becomes of each weight as soon as it was read, before the next one is: so never more than one of
// them lies in host memory on its way to a device.
#pragma once

#include "gpu/weights.hpp"

namespace tandem::gpu {

class WeightPlacer {
 public:
  virtual ~WeightPlacer() = default;
  // A matrix that is multiplied: gets the backend's own form, too.
  virtual void place_matrix(Linear& weight) = 0;
  // A matrix that is read by row.
  virtual void place_table(Linear& table) = 0;
  virtual void place_vector(DenseF32& values) = 0;
};

}  // namespace tandem::gpu
