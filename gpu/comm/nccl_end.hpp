// The end of a rank's NCCL group, with a limit.
//
// NCCL may wait while it frees a group: for the other ranks on the same host, whose common act that is, and for graphs
// with exchanges of the group. So a thread of its own does it, and is left behind when that takes too long.
#pragma once

#include <chrono>
#include <future>
#include <optional>

#include "gpu/comm/nccl_api.hpp"

namespace tandem::gpu::comm {

class NcclEnd {
 public:
  // Both begin to free `group`, a group of `device`, and return at once; one of them is called, once. Without a thread
  // to be had the group stays. `nccl` outlives everything.
  void abort(NcclApi& nccl, NcclGroup group, int device);
  // For a group without exchanges in flight; one that cannot be finalized within 2 s is aborted.
  void leave_in_peace(NcclApi& nccl, NcclGroup group, int device);
  // Waits at most `limit` for what was begun. False: it is left behind.
  bool wait(std::chrono::milliseconds limit) const;

 private:
  std::optional<std::future<void>> freed_;
};

}  // namespace tandem::gpu::comm
