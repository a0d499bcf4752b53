// Verification of a model folder from its headers alone: seconds, even for half a terabyte. One report with every
// fault.
//
// It reads config.json, the index, all headers and the token map; it does not read weights, so NaNs are found only by
// loading.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "engram/error.hpp"
#include "gpu/checkpoint/byte_source.hpp"
#include "gpu/tensor.hpp"

namespace tandem::gpu {

struct CheckpointReport {
  std::filesystem::path folder;
  std::size_t shards = 0;
  std::size_t tensors = 0;               // in the files, vision included
  std::size_t tensors_vision = 0;        // of those, skipped
  std::map<DType, std::uint64_t> bytes;  // payload by type
  std::uint64_t table_bytes = 0;         // of the payload, Engram rows and scales that stay on disk
  std::vector<int> ranks;                // rank counts out of 1, 2, 4, 8 over which the model can be split
  std::vector<Error> faults;             // empty: the folder can be loaded

  bool is_good() const noexcept { return faults.empty(); }
  std::uint64_t bytes_all() const noexcept;
  // Returns the report as lines of text, faults last.
  std::string to_text() const;
};

// Checks as far as it can get: without a readable config.json nothing else is judged. At most `faults_max` faults are
// listed.
CheckpointReport verify_checkpoint(const std::filesystem::path& folder, std::size_t faults_max = 50,
                                   const OpenSource& open_source = open_file);

}  // namespace tandem::gpu
