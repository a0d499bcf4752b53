// A communicator that reaches device memory through NCCL, for ranks that agree to use it (device_group.hpp).
#pragma once

#include <atomic>
#include <chrono>
#include <memory>

#include "gpu/comm/communicator.hpp"
#include "gpu/comm/nccl_api.hpp"

namespace tandem::gpu {

struct NcclOptions {
  int device = 0;  // of this rank
  std::chrono::milliseconds connect_timeout{60'000};
  std::chrono::milliseconds timeout{120'000};  // of what is watched, and of issuing one exchange
  const std::atomic<bool>* stop = nullptr;     // gives connecting up once it is true; may be null
};

// Returns a communicator that exchanges device memory through `nccl`, which must outlive it, and everything else
// through `control`, which it takes over; on failure `control` stays as it was. Every rank of the group calls it, each
// from its own thread or process, and all have the same outcome. Errors: those of control; unavailable if NCCL cannot
// connect a rank, resource if there is no thread for it, timeout if it does not within connect_timeout, cancelled if a
// rank was stopped: `where` names it.
Result<std::unique_ptr<Communicator>> make_nccl_communicator(NcclApi& nccl, std::unique_ptr<Communicator>& control,
                                                             const NcclOptions& options);

}  // namespace tandem::gpu
