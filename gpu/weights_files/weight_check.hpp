// WeightCheck: the verdict of one named check (W1 to W8) on a model folder, with its faults or the reason why it was
// not made.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "engram/error.hpp"

namespace tandem::gpu {

enum class CheckVerdict : std::uint8_t { pass, fail, skipped };

// Returns "pass", "fail" or "skipped".
std::string_view to_string(CheckVerdict verdict) noexcept;

struct WeightCheck {
  std::string id;    // "W1"
  std::string what;  // what it looks at, in a few words
  CheckVerdict verdict = CheckVerdict::skipped;
  std::string detail;          // what was seen; of a skipped check, why
  std::vector<Error> faults;   // of a failed check, at least one; each names file, tensor and expectation
  bool stops_loading = false;  // a failed check: the model cannot be loaded like this

  static WeightCheck skip(std::string id, std::string what, std::string why);
  // Pass without faults, fail with them.
  static WeightCheck judge(std::string id, std::string what, std::string seen, std::vector<Error> faults);
};

// At most this many faults of one check are told; more are counted by nobody.
inline constexpr std::size_t check_faults_max = 50;

}  // namespace tandem::gpu
