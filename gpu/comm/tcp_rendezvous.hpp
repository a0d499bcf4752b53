// How the ranks of a TCP group find each other: everybody says hello to rank 0, which answers when all are there.
#pragma once

#include <atomic>
#include <vector>

#include "gpu/comm/communicator.hpp"
#include "gpu/comm/socket.hpp"

namespace tandem::gpu::comm {

// The connections of one rank, by peer rank. Rank 0 has one to every other rank; the others have one to rank 0. The
// rest stay closed.
using Links = std::vector<Socket>;

// Connects this rank to its group. Returns on all ranks at about the same time: when the group is complete.
// Errors: timeout (naming the missing ranks), unavailable, mismatch (refused by rank 0), invalid_argument; cancelled
// soon after `stop` became true.
Result<Links> meet_group(const TcpGroup& group, const std::atomic<bool>& stop);

}  // namespace tandem::gpu::comm
