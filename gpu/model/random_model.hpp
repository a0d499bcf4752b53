// A model of any configuration with random weights, made where it computes: for measurements at full size without a
// checkpoint, and for tests of shapes that no small checkpoint has.
//
// Matrices have the formats and widths of the released 2.9-bit EXL3 pack of DeepSeek-V4.1-Flash: routed experts 3 bits
// (2 in layers 18 to 22), shared experts 5 or 4, attention 5, index keys 8, head 6, draft network 4; gate, index
// weights and embedding BF16. Gains are such that activations keep their size. Engram layers are left out: their rows
// come from tables of 200 GB.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "engram/error.hpp"
#include "gpu/model/model.hpp"

namespace tandem::gpu {

struct RandomModelOptions {
  ModelConfig config;
  std::string backend = "cpu";
  int threads = 1;
  int ranks = 1;  // the weights are the share of one of so many ranks; its partial sums stay alone
  std::int64_t max_positions = 0;
  bool draft = true;
  std::uint64_t seed = 1;
};

// `communicator` is a group of one. Errors: invalid_argument (ranks that the model cannot be split over, or EXL3 sides
// that are not multiples of 128), resource (memory), those of the backend.
Result<std::unique_ptr<Model>> make_random_model(const RandomModelOptions& options, Communicator& communicator);

}  // namespace tandem::gpu
