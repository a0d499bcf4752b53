// Exact selection of the best entries: higher score first, then the lower index; never -infinity or NaN.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace tandem::gpu {

// Selects at most `count` entries; linear in scores.size() on average. Reuses its memory.
class TopK {
 public:
  // Returns the chosen indices in ascending order, valid until the next call.
  std::span<const std::int32_t> select(std::span<const float> scores, std::int64_t count);

 private:
  std::vector<std::uint64_t> ranked_;  // ordered score in the high half, complement of the index in the low half
  std::vector<std::int32_t> chosen_;
};

}  // namespace tandem::gpu
