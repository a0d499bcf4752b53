// The values of a loaded matrix of any format but EXL3, as the quantiser and its measures want them.
#pragma once

#include "gpu/linear.hpp"

namespace tandem::gpu::exl3 {

// Decodes `weight` into out [n, k].
void decode_dense(const Linear& weight, float* out);

}  // namespace tandem::gpu::exl3
