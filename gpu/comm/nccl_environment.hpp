// What NCCL must be told before its first call, as variables of the environment: it has no other ear for these.
//
// Pure text; whoever starts the process sets them. A setting that is not given leaves its variable alone: an empty one
// would mean something else to NCCL.
#pragma once

#include <string>
#include <vector>

#include "engram/error.hpp"

namespace tandem::gpu {

// One node's part of the fabric; empty = NCCL finds it.
struct NcclFabric {
  std::string interface;  // of the network, e.g. "enp1s0f0np0"
  std::string hca;        // RDMA devices: "name:port,name:port"
  std::string gid;        // index 0..255
};

struct NcclVariable {
  std::string name;
  std::string value;
  bool is_wish = false;  // comes from a setting: it wins over a variable that is set already
};

// Errors: bad_config naming the part that is malformed.
Result<std::vector<NcclVariable>> nccl_environment(const NcclFabric& fabric);

}  // namespace tandem::gpu
