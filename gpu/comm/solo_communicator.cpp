// A group of one: nobody to wait for, but the same contract, so that callers need no special case.
#include <mutex>
#include <optional>

#include "gpu/comm/block_layout.hpp"
#include "gpu/comm/communicator.hpp"

namespace tandem::gpu {
namespace {

class SoloCommunicator final : public Communicator {
 public:
  int rank() const noexcept override { return 0; }
  int size() const noexcept override { return 1; }

  Result<void> all_gather(std::span<const std::byte> local, std::span<std::byte> all) override {
    {
      const std::lock_guard lock(mutex_);
      if (dead_) return *dead_;
    }
    if (auto checked = comm::check_blocks(local, all, 1); !checked) return checked;
    comm::place_own_block(local, all, 0);
    return {};
  }

  std::optional<Error> failure() override {
    const std::lock_guard lock(mutex_);
    return dead_;
  }

  void abort(const std::string& reason) override {
    const std::lock_guard lock(mutex_);
    if (!dead_) dead_ = Error{ErrorCode::cancelled, "rank 0", reason, ""};
  }

 private:
  std::mutex mutex_;  // guards dead_
  std::optional<Error> dead_;
};

}  // namespace

std::unique_ptr<Communicator> make_solo_communicator() {
  return std::make_unique<SoloCommunicator>();
}

}  // namespace tandem::gpu
