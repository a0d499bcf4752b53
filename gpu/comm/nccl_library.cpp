// NcclApi as calls of the library. Groups are non-blocking: every call returns at once, so that whoever holds the group
// can always abort it.
#include "gpu/comm/nccl_library.hpp"

#include <cuda_runtime_api.h>
#include <nccl.h>

#include <cstring>

namespace tandem::gpu {
namespace {

static_assert(sizeof(NcclId) == sizeof(ncclUniqueId), "ids travel as bytes");
static_assert(sizeof(DeviceUuid) == sizeof(cudaUUID_t), "so do the names of devices");

// Memory of a channel is pinned; more of them do not move the few hundred kilobytes of a step any faster.
constexpr int channels_max = 8;

NcclStatus status_of(ncclResult_t result) {
  if (result == ncclSuccess) return {};
  if (result == ncclInProgress) return {NcclStatus::running, {}};
  std::string why = ncclGetErrorString(result);
  if (const char* last = ncclGetLastError(nullptr); last != nullptr && *last != '\0') why += std::string(": ") + last;
  return {NcclStatus::failed, std::move(why)};
}

ncclComm_t handle_of(NcclGroup group) {
  return static_cast<ncclComm_t>(group);
}

class NcclLibrary final : public NcclApi {
 public:
  int version() const noexcept override {
    int version = 0;
    return ncclGetVersion(&version) == ncclSuccess ? version : 0;
  }

  Result<DeviceUuid> select(int device) override {
    cudaDeviceProp properties{};
    cudaError_t status = cudaSetDevice(device);
    if (status == cudaSuccess) status = cudaGetDeviceProperties(&properties, device);
    if (status != cudaSuccess) {
      cudaGetLastError();  // also kept by the runtime, where the next launch would find it
      return Error{ErrorCode::resource, "CUDA device " + std::to_string(device), cudaGetErrorString(status),
                   "a usable device"};
    }
    DeviceUuid uuid{};
    std::memcpy(uuid.data(), &properties.uuid, uuid.size());
    return uuid;
  }

  Result<NcclId> make_id() override {
    ncclUniqueId made{};
    if (const auto status = status_of(ncclGetUniqueId(&made)); status.state != NcclStatus::done)
      return Error{ErrorCode::unavailable, "NCCL", status.why, "an id for the group"};
    NcclId id{};
    std::memcpy(id.data(), &made, id.size());
    return id;
  }

  NcclStatus begin(const NcclSeat& seat, NcclGroup& group) override {
    ncclUniqueId id{};
    std::memcpy(&id, seat.id.data(), seat.id.size());
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;
    config.maxCTAs = channels_max;
    ncclComm_t made = nullptr;
    const ncclResult_t result = ncclCommInitRankConfig(&made, seat.size, id, seat.rank, &config);
    group = made;
    return status_of(result);
  }

  NcclStatus state(NcclGroup group) override {
    ncclResult_t found = ncclSuccess;
    const ncclResult_t asked = ncclCommGetAsyncError(handle_of(group), &found);
    return status_of(asked == ncclSuccess ? found : asked);
  }

  NcclStatus all_gather(NcclGroup group, void* stream, std::span<const std::byte> local,
                        std::span<std::byte> all) override {
    return status_of(ncclAllGather(local.data(), all.data(), local.size(), ncclUint8, handle_of(group),
                                   static_cast<cudaStream_t>(stream)));
  }

  NcclStatus finalize(NcclGroup group) override { return status_of(ncclCommFinalize(handle_of(group))); }
  void destroy(NcclGroup group) override { ncclCommDestroy(handle_of(group)); }
  void abort(NcclGroup group) override { ncclCommAbort(handle_of(group)); }
};

}  // namespace

NcclApi& nccl_library() noexcept {
  static NcclLibrary only;
  return only;
}

}  // namespace tandem::gpu
