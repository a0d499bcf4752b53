// The tensors of EXL3 matrices in a checkpoint: found by name, checked by header.
//
// A packed matrix of k inputs and n outputs (both rounded up to 128 in the file) is
//   NAME.trellis  I16 [k / 16, n / 16, 16 * bits]   bits 1 to 8, read from here and nowhere else
//   NAME.suh      F16 [k]    or NAME.su  I16 [k / 16]: signs alone, one bit a channel, least significant first, 1 = -1
//   NAME.svh      F16 [n]    or NAME.sv  I16 [n / 16]
//   NAME.mcg or NAME.mul1    I32 scalar: the codebook; neither: 3INST
// A matrix of independent groups of outputs (wo_a) may be stored as NAME.slice.{g} instead.
#pragma once

#include <string>
#include <vector>

#include "gpu/checkpoint/checkpoint.hpp"
#include "gpu/exl3/form.hpp"

namespace tandem::gpu {

struct ExpectedTensor;

struct Exl3Place {
  TensorPlace trellis;
  TensorPlace suh, svh;  // or su, sv: the type tells
  TensorPlace marker;    // entry is null for 3INST
  exl3::Form form;
  std::int64_t k = 0, n = 0;  // as stored: multiples of 128
};

// The packed matrices that make up one expected matrix: itself, or its slices in order.
std::vector<std::string> exl3_modules(const Checkpoint& checkpoint, const ExpectedTensor& tensor);

// True if the checkpoint has any packed tensor of it.
bool has_exl3(const Checkpoint& checkpoint, const ExpectedTensor& tensor);

// Returns the tensors of the packed matrix `module` with k inputs and n outputs. Errors (naming file, tensor and
// expectation): not_found (one is missing), mismatch (type, shape, two codebooks).
struct Exl3Wanted {
  std::string module;
  std::int64_t n = 0, k = 0;
};
Result<Exl3Place> find_exl3(const Checkpoint& checkpoint, const Exl3Wanted& wanted);

// Reads the marker and compares it with the codebook's value. Errors: io, corrupt.
Result<void> check_marker(const Exl3Place& place);

// Suffixes of the tensors of a packed matrix, with the dot.
std::span<const char* const> exl3_suffixes() noexcept;

}  // namespace tandem::gpu
