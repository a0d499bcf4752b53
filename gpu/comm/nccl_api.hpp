// NcclApi: the few functions of NCCL that Tandem uses, as an interface: everything above it is tested without a device.
//
// No call blocks for a peer. One that has to wait for others returns `running`, and state() says when it is done.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "engram/error.hpp"

namespace tandem::gpu {

using NcclId = std::array<std::byte, 128>;     // made by rank 0; with it the others find each other
using DeviceUuid = std::array<std::byte, 16>;  // one device has the same one in every process
using NcclGroup = void*;                       // one rank's end of a group: an ncclComm_t

struct NcclStatus {
  enum State : std::uint8_t { done, running, failed };
  State state = done;
  std::string why;  // of a failure
};

// A rank's place in the group that is to be.
struct NcclSeat {
  NcclId id{};
  int rank = 0;
  int size = 1;
};

class NcclApi {
 public:
  virtual ~NcclApi() = default;
  // The library's version as one number, e.g. 22809.
  virtual int version() const noexcept = 0;
  // Makes `device` the calling thread's own. Errors: resource (no such device).
  virtual Result<DeviceUuid> select(int device) = 0;
  // Errors: unavailable.
  virtual Result<NcclId> make_id() = 0;
  // Begins to connect the calling thread's device. `group` may be set even on failure, and is then to be aborted.
  virtual NcclStatus begin(const NcclSeat& seat, NcclGroup& group) = 0;
  // What became of the call before, and whether the group has met an error since.
  virtual NcclStatus state(NcclGroup group) = 0;
  // Puts an exchange of device memory onto `stream` (a cudaStream_t); it is there once this or state() says done.
  virtual NcclStatus all_gather(NcclGroup group, void* stream, std::span<const std::byte> local,
                                std::span<std::byte> all) = 0;
  // Begins to end a group without exchanges in flight; once done, destroy() frees it.
  virtual NcclStatus finalize(NcclGroup group) = 0;
  virtual void destroy(NcclGroup group) = 0;
  // Ends exchanges in flight and frees the group. May wait until no graph with its exchanges is left.
  virtual void abort(NcclGroup group) = 0;
};

}  // namespace tandem::gpu
