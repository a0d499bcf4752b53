// The TCP communicator for a thread that must be able to give up before its group is complete.
#pragma once

#include <atomic>

#include "gpu/comm/communicator.hpp"

namespace tandem::gpu {

// As make_tcp_communicator(group), but ends with `cancelled` within a fifth of a second once `stop` is true. Afterwards
// abort() is the way to end it.
Result<std::unique_ptr<Communicator>> make_tcp_communicator(const TcpGroup& group, const std::atomic<bool>& stop);

}  // namespace tandem::gpu
