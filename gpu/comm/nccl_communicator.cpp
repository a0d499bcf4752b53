// Ranks that own one CUDA device each exchange blocks from device to device, in the order of their streams.
//
// NCCL moves bytes, nothing is added in flight: sums are formed by the callers in rank order, as everywhere. The
// control communicator carries NCCL's rendezvous and all host memory; it also is what notices that a peer is gone. An
// exchange on the device waits for its peers on the device, so its deadline is abort(): it ends the exchanges in
// flight.
#include "gpu/comm/nccl_communicator.hpp"

#include <cuda_runtime_api.h>
#include <nccl.h>

#include <algorithm>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "gpu/comm/block_layout.hpp"

namespace tandem::gpu {
namespace {

Error refusal(ErrorCode code, int rank, std::string found) {
  return {code, "NCCL, rank " + std::to_string(rank), std::move(found), ""};
}

// Every rank says whether its own part worked; all get the same answer.
Result<void> agree(Communicator& control, ncclResult_t own) {
  const std::int32_t status = own;
  std::vector<std::int32_t> all(static_cast<std::size_t>(control.size()));
  const auto told = control.all_gather(std::as_bytes(std::span(&status, 1)), std::as_writable_bytes(std::span(all)));
  if (!told) return told;
  const auto failed = std::find_if(all.begin(), all.end(), [](std::int32_t one) { return one != ncclSuccess; });
  if (failed == all.end()) return {};
  const auto rank = static_cast<int>(failed - all.begin());
  return refusal(ErrorCode::unavailable, rank, ncclGetErrorString(static_cast<ncclResult_t>(*failed)));
}

class NcclCommunicator final : public Communicator {
 public:
  explicit NcclCommunicator(std::unique_ptr<Communicator> control, ncclComm_t group)
      : control_(std::move(control)), group_(group) {}
  NcclCommunicator(const NcclCommunicator&) = delete;
  NcclCommunicator& operator=(const NcclCommunicator&) = delete;
  ~NcclCommunicator() override {
    if (group_ != nullptr) ncclCommDestroy(group_);
  }

  int rank() const noexcept override { return control_->rank(); }
  int size() const noexcept override { return control_->size(); }
  bool reaches_devices() const noexcept override { return true; }

  Result<void> all_gather(std::span<const std::byte> local, std::span<std::byte> all) override {
    return control_->all_gather(local, all);
  }

  Result<void> all_gather_on(void* stream, std::span<const std::byte> local, std::span<std::byte> all) override {
    const std::lock_guard lock(mutex_);
    if (dead_) return *dead_;
    if (auto checked = comm::check_blocks(local, all, size()); !checked) return checked;
    const ncclResult_t status =
        ncclAllGather(local.data(), all.data(), local.size(), ncclUint8, group_, static_cast<cudaStream_t>(stream));
    if (status == ncclSuccess) return {};
    dead_ = refusal(ErrorCode::unavailable, rank(), ncclGetLastError(group_));
    return *dead_;
  }

  void abort(const std::string& reason) override {
    {
      const std::lock_guard lock(mutex_);
      if (!dead_) dead_ = refusal(ErrorCode::cancelled, rank(), reason);
      if (group_ != nullptr) ncclCommAbort(std::exchange(group_, nullptr));
    }
    control_->abort(reason);
  }

 private:
  const std::unique_ptr<Communicator> control_;
  std::mutex mutex_;  // guards group_ and dead_
  ncclComm_t group_;
  std::optional<Error> dead_;
};

// Connects this rank; every rank has the same outcome.
Result<ncclComm_t> connect(Communicator& control, int device) {
  ncclUniqueId own = {};
  ncclResult_t status = control.rank() == 0 ? ncclGetUniqueId(&own) : ncclSuccess;
  if (cudaSetDevice(device) != cudaSuccess) status = ncclUnhandledCudaError;
  if (auto agreed = agree(control, status); !agreed) return agreed.error();
  std::vector<ncclUniqueId> ids(static_cast<std::size_t>(control.size()));
  const auto met = control.all_gather(std::as_bytes(std::span(&own, 1)), std::as_writable_bytes(std::span(ids)));
  if (!met) return met.error();
  ncclComm_t group = nullptr;
  status = ncclCommInitRank(&group, control.size(), ids.front(), control.rank());
  const auto agreed = agree(control, status);
  if (agreed) return group;
  if (status == ncclSuccess) ncclCommAbort(group);
  return agreed.error();
}

}  // namespace

Result<std::unique_ptr<Communicator>> make_nccl_communicator(std::unique_ptr<Communicator>& control, int device) {
  const auto group = connect(*control, device);
  if (!group) return group.error();
  return std::unique_ptr<Communicator>(std::make_unique<NcclCommunicator>(std::move(control), *group));
}

}  // namespace tandem::gpu
