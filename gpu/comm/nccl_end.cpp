// Freeing in a thread that nobody has to wait for.
#include "gpu/comm/nccl_end.hpp"

#include <thread>

#include "engram/unwaited_call.hpp"

namespace tandem::gpu::comm {
namespace {

constexpr auto finalize_timeout = std::chrono::seconds(2);

void finalize(NcclApi& nccl, NcclGroup group) {
  const auto deadline = std::chrono::steady_clock::now() + finalize_timeout;
  NcclStatus status = nccl.finalize(group);
  while (status.state == NcclStatus::running && std::chrono::steady_clock::now() < deadline) {
    std::this_thread::yield();
    status = nccl.state(group);
  }
  if (status.state == NcclStatus::done)
    nccl.destroy(group);
  else
    nccl.abort(group);
}

}  // namespace

void NcclEnd::abort(NcclApi& nccl, NcclGroup group, int device) {
  freed_ = start_unwaited([&nccl, group, device] {
    (void)nccl.select(device);
    nccl.abort(group);
  });
}

void NcclEnd::leave_in_peace(NcclApi& nccl, NcclGroup group, int device) {
  freed_ = start_unwaited([&nccl, group, device] {
    (void)nccl.select(device);
    finalize(nccl, group);
  });
}

bool NcclEnd::wait(std::chrono::milliseconds limit) const {
  return !freed_ || freed_->wait_for(limit) == std::future_status::ready;
}

}  // namespace tandem::gpu::comm
