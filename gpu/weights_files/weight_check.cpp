// Makes verdicts: without faults a check passed, and a failed one stops loading unless its maker says otherwise.
#include "gpu/weights_files/weight_check.hpp"

#include <utility>

namespace tandem::gpu {

std::string_view to_string(CheckVerdict verdict) noexcept {
  switch (verdict) {
    case CheckVerdict::pass:
      return "pass";
    case CheckVerdict::fail:
      return "fail";
    case CheckVerdict::skipped:
      break;
  }
  return "skipped";
}

WeightCheck WeightCheck::skip(std::string id, std::string what, std::string why) {
  return {std::move(id), std::move(what), CheckVerdict::skipped, std::move(why), {}, false};
}

WeightCheck WeightCheck::judge(std::string id, std::string what, std::string seen, std::vector<Error> faults) {
  const CheckVerdict verdict = faults.empty() ? CheckVerdict::pass : CheckVerdict::fail;
  return {std::move(id), std::move(what), verdict, std::move(seen), std::move(faults), verdict == CheckVerdict::fail};
}

}  // namespace tandem::gpu
