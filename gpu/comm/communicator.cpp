// What a communicator without devices answers.
#include "gpu/comm/communicator.hpp"

namespace tandem::gpu {

Result<void> Communicator::all_gather_on(void*, std::span<const std::byte>, std::span<std::byte>) {
  return Error{ErrorCode::invalid_argument, "all_gather_on", "a group that reaches no devices", "one that does"};
}

}  // namespace tandem::gpu
