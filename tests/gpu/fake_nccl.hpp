// NCCL without devices: the ranks of a test are threads, "device memory" is host memory, and faults come when asked
// for.
#pragma once

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "gpu/comm/nccl_api.hpp"

namespace tandem::gpu::test {

// What the ranks of one test share: who has begun, who has given what, and which faults there are.
struct FakeFabric {
  explicit FakeFabric(int ranks) : size(ranks) {}

  const int size;
  std::atomic<bool> connects = true;        // false: groups stay as they begin
  std::atomic<bool> exchanges = true;       // false: no exchange is ever issued
  std::atomic<bool> has_lost_peer = false;  // every group meets an error by itself
  std::atomic<bool> finalizes = true;
  std::atomic<int> begun = 0, aborted = 0, abort_ends = 0, destroyed = 0, finalized = 0, selected = 0;

  std::mutex mutex;  // guards what follows
  std::condition_variable changed;
  bool has_graphs = false;                                    // aborting waits while it is true
  std::map<int, std::vector<std::vector<std::byte>>> rounds;  // [round][rank]; empty: not given yet
};

// One rank's library.
class FakeNccl final : public NcclApi {
 public:
  explicit FakeNccl(FakeFabric& fabric, int rank) : fabric_(fabric), rank_(rank) {
    uuid.fill(static_cast<std::byte>(rank + 1));
  }

  int version_code = 22809;
  DeviceUuid uuid{};
  bool has_device = true;
  bool makes_ids = true;
  bool begins = true;

  int version() const noexcept override { return version_code; }

  Result<DeviceUuid> select(int device) override {
    ++fabric_.selected;
    if (!has_device) return Error{ErrorCode::resource, "device " + std::to_string(device), "broken", "a usable device"};
    return uuid;
  }

  Result<NcclId> make_id() override {
    if (!makes_ids) return Error{ErrorCode::unavailable, "NCCL", "no interface", "an id for the group"};
    NcclId id{};
    id.fill(std::byte{0x5a});
    return id;
  }

  NcclStatus begin(const NcclSeat& seat, NcclGroup& group) override {
    group = this;
    const bool has_id = std::all_of(seat.id.begin(), seat.id.end(), [](std::byte b) { return b == std::byte{0x5a}; });
    if (!begins || !has_id || seat.rank != rank_ || seat.size != fabric_.size)
      return {NcclStatus::failed, "unhandled cuda error"};
    ++fabric_.begun;
    return state(group);
  }

  NcclStatus state(NcclGroup) override {
    if (fabric_.has_lost_peer) return {NcclStatus::failed, "remote process exited"};
    if (!fabric_.connects || fabric_.begun < fabric_.size) return {NcclStatus::running, {}};
    if (is_finalizing_) return {fabric_.finalizes ? NcclStatus::done : NcclStatus::running, {}};
    if (to_.empty()) return {};
    if (!fabric_.exchanges) return {NcclStatus::running, {}};
    return finish();
  }

  NcclStatus all_gather(NcclGroup group, void*, std::span<const std::byte> local, std::span<std::byte> all) override {
    {
      const std::lock_guard lock(fabric_.mutex);
      auto& given = fabric_.rounds[round_];
      given.resize(static_cast<std::size_t>(fabric_.size));
      given[static_cast<std::size_t>(rank_)].assign(local.begin(), local.end());
    }
    to_ = all;
    return state(group);
  }

  NcclStatus finalize(NcclGroup group) override {
    ++fabric_.finalized;
    is_finalizing_ = true;
    return state(group);
  }
  void destroy(NcclGroup) override { ++fabric_.destroyed; }
  void abort(NcclGroup) override {
    std::unique_lock lock(fabric_.mutex);
    ++fabric_.aborted;
    fabric_.changed.notify_all();
    fabric_.changed.wait(lock, [this] { return !fabric_.has_graphs; });
    ++fabric_.abort_ends;
    fabric_.changed.notify_all();
  }

 private:
  // Copies the blocks of the round once all ranks gave theirs.
  NcclStatus finish() {
    const std::lock_guard lock(fabric_.mutex);
    const auto& given = fabric_.rounds[round_];
    for (const auto& block : given) {
      if (block.empty()) return {NcclStatus::running, {}};
    }
    auto at = to_.begin();
    for (const auto& block : given) at = std::copy(block.begin(), block.end(), at);
    to_ = {};
    ++round_;
    return {};
  }

  FakeFabric& fabric_;
  const int rank_;
  int round_ = 0;
  std::span<std::byte> to_;  // of the exchange that is under way
  bool is_finalizing_ = false;
};

}  // namespace tandem::gpu::test
