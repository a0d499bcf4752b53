// Whether the ranks of a group exchange device memory themselves, through NCCL, or by way of host memory.
//
// All ranks decide from the same gathered cards, so that they decide alike: none waits for a group that another one
// does not enter.
#pragma once

#include <functional>
#include <string_view>

#include "gpu/comm/nccl_communicator.hpp"

namespace tandem::gpu {

enum class DeviceExchange : std::uint8_t {
  best,  // NCCL where every rank has it and a device of its own
  nccl,  // nothing but NCCL
  host,  // by way of host memory
};

// Returns the exchange of a name: "auto", "nccl" or "host"; nothing for any other.
std::optional<DeviceExchange> parse_exchange(std::string_view name) noexcept;

struct DeviceGroupOptions {
  DeviceExchange exchange = DeviceExchange::best;
  std::vector<int> devices;       // CUDA devices of the ranks, in turn; empty: rank modulo those that are visible
  bool may_share_device = false;  // `best` goes by way of host memory where ranks share a device; false: refused
  std::chrono::milliseconds connect_timeout{60'000};
  std::chrono::milliseconds timeout{120'000};  // of the exchanges of one step
};

// Returns which of `visible` devices a rank uses. Errors: resource (no device, or none of that number).
Result<int> device_of(const DeviceGroupOptions& options, int rank, int visible);

// How one rank takes part.
struct DeviceMember {
  NcclApi* nccl = nullptr;                           // null: this build has none
  int device = 0;                                    // below 0: it has none, and comes to tell
  const std::atomic<bool>* stop = nullptr;           // see NcclOptions
  std::function<void(const std::string&)> announce;  // told why host memory is used where nobody asked for it
};

// Replaces `group` by one that reaches devices, if the ranks can and want to; leaves it as it is otherwise, and on
// failure. Every rank calls it. Errors, one code on all ranks: those of make_nccl_communicator; resource (a rank's
// device cannot be used), mismatch (other wishes, other versions of NCCL, one device for two ranks, no NCCL), with the
// rank in `where`.
Result<void> reach_devices(std::unique_ptr<Communicator>& group, const DeviceGroupOptions& options,
                           const DeviceMember& member);

}  // namespace tandem::gpu
