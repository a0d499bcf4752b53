// From the packed tensors of a file to the Linear that the CPU backend multiplies with, cut on either axis.
#pragma once

#include <string>

#include "gpu/checkpoint/exl3_tensors.hpp"
#include "gpu/checkpoint/tensor_stream.hpp"
#include "gpu/linear.hpp"

namespace tandem::gpu {

// Which part of a packed matrix to load. Both ranges begin at a multiple of 128 and end at one or at the matrix's own
// end: Hadamard blocks stay whole.
struct Exl3Part {
  Range outputs, inputs;
};

// Returns the part in stored channels, which are padded to whole blocks at the matrix's own end. Errors:
// invalid_argument (a cut through a block).
Result<Exl3Part> stored_part(const Exl3Place& place, const Exl3Wanted& wanted, const Exl3Part& part);

// Streams the part into memory, the tiles of 16 outputs side by side (see gpu/linear.hpp); signs of older files become
// scales of one. `wanted` is what find_exl3 was asked for. Errors: those of TensorStream and check_marker;
// invalid_argument (a cut through a block).
Result<Linear> load_exl3(TensorStream& stream, const Exl3Place& place, const Exl3Wanted& wanted, const Exl3Part& part);

}  // namespace tandem::gpu
