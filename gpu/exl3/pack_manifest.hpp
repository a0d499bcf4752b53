// PackManifest: the durable record of a pack in work, exl3_pack.json: whose it is, what was measured, what was chosen.
//
// It is written anew after every measurement and lies in the finished pack too, as the account of its bits. Numbers are
// kept as text, so that a continued pack goes on with exactly what was measured.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "gpu/exl3/pack_job.hpp"

namespace tandem::gpu::exl3 {

inline constexpr const char* manifest_file_name = "exl3_pack.json";

struct PackManifest {
  std::vector<std::optional<double>> sensitivities;  // by group of the plan; empty: not measured yet
  std::vector<int> bits;                             // by group; empty until all are measured

  // Returns the record in the output folder, or an empty one if there is none. Errors: invalid_argument
  // (another job's), bad_format, io.
  static Result<PackManifest> read(const PackJob& job);
  // Complete or not at all. Errors: io.
  Result<void> write(const PackJob& job) const;
};

// Returns `value` with the digits that a manifest keeps.
double kept_digits(double value);

}  // namespace tandem::gpu::exl3
