// What a pack says about itself to other tools: `quantization_config` of config.json, and quantization_config.json.
//
// Both are conveniences: readers of EXL3 take bits and codebook from the tensors.
#pragma once

#include <boost/json/object.hpp>
#include <string>
#include <vector>

#include "gpu/exl3/pack_job.hpp"

namespace tandem::gpu::exl3 {

// Returns method, average bits, bits of the head, calibration and codebook, under the names that EXL3 tools use. The
// head's are what the shards of the pack say, 16 if it is not packed. Errors: those of the shards.
Result<boost::json::object> quantization_config(const PackJob& job, const std::vector<std::string>& shards);

// Writes quantization_config.json: the same, and under `tensor_storage` what every module is stored as, read from the
// headers of the shards. Errors: io and those of the shards.
Result<void> write_storage_record(const PackJob& job, const std::vector<std::string>& shards);

}  // namespace tandem::gpu::exl3
