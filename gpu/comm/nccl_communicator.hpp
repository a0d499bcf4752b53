// A communicator that reaches device memory through NCCL. Only in builds that have CUDA and found NCCL.
#pragma once

#include "gpu/comm/communicator.hpp"

namespace tandem::gpu {

// Returns a communicator that exchanges device memory through NCCL and everything else through `control`, which it
// takes over; on failure `control` stays as it was. `device` is this rank's CUDA device; every rank of the group calls
// it, each from its own thread or process. Errors: those of control; unavailable, on every rank, if NCCL cannot connect
// one of them (two ranks on one device, say).
Result<std::unique_ptr<Communicator>> make_nccl_communicator(std::unique_ptr<Communicator>& control, int device);

}  // namespace tandem::gpu
