// How ranks that know each other become a group of NCCL, or all learn why not.
#pragma once

#include "gpu/comm/nccl_communicator.hpp"

namespace tandem::gpu::comm {

// Connects this rank; every rank calls it and has the same outcome. Errors: see make_nccl_communicator.
Result<NcclGroup> connect_nccl(NcclApi& nccl, Communicator& control, const NcclOptions& options);

// Returns the error of a rank's end of a group.
Error nccl_error(ErrorCode code, int rank, std::string found, std::string expected = {});

}  // namespace tandem::gpu::comm
