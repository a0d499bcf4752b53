// Ranks that are threads of one process meet in shared memory: one barrier an exchange.
//
// Every rank copies its block into a shared slot, arrives, and once all have arrived copies all slots out. There are
// two sets of slots, used in turn. Why that suffices: a rank writes set p again only in round g + 2, hence after the
// barrier of round g + 1, which every rank enters only after it has copied round g out of set p.
//
// The barrier is crossed dozens of times a step and mostly finds the others close by: it spins for some microseconds,
// then sleeps.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <condition_variable>
#include <cstring>
#include <mutex>
#include <optional>
#include <thread>

#include "gpu/comm/block_layout.hpp"
#include "gpu/comm/communicator.hpp"

namespace tandem::gpu {
namespace {

using Clock = std::chrono::steady_clock;
using Slot = std::vector<std::byte>;

// Longer spinning takes the cores away from the ranks that are waited for.
constexpr auto barrier_spin = std::chrono::microseconds(20);

// What the members share. Counters are atomics for the spinning phase: a rank's slot is written before its `arrived`
// increment (release), and read after `round` has moved on (acquire), which the last arriver stores after all
// increments (acquire-release).
class Group {
 public:
  Group(int size, std::chrono::milliseconds timeout) : timeout_(timeout), arrivals_(static_cast<std::size_t>(size)) {
    for (auto& set : slots_) set.resize(static_cast<std::size_t>(size));
  }

  int size() const noexcept { return static_cast<int>(arrivals_.size()); }

  // Returns the set of slots of a round; a rank may write its own slot before meet() and read all of them after it.
  std::vector<Slot>& slots(std::uint64_t round) noexcept { return slots_[round % 2]; }

  // Waits until every rank has arrived in `round`.
  Result<void> meet(int rank, std::uint64_t round) {
    arrivals_[static_cast<std::size_t>(rank)].store(round + 1, std::memory_order_relaxed);
    if (arrived_.fetch_add(1, std::memory_order_acq_rel) + 1 == size()) {
      arrived_.store(0, std::memory_order_relaxed);  // nobody arrives again before round_ moves on
      {
        const std::lock_guard lock(mutex_);
        round_.store(round + 1, std::memory_order_release);
      }
      changed_.notify_all();
      return {};
    }
    if (spin(round)) return {};
    return sleep_until_met(rank, round);
  }

  // The first error is everybody's.
  void fail(Error error) {
    {
      const std::lock_guard lock(mutex_);
      if (!failed_) failed_ = std::move(error);
      is_failed_.store(true, std::memory_order_release);
    }
    changed_.notify_all();
  }

  std::optional<Error> failure() {
    if (!is_failed_.load(std::memory_order_acquire)) return std::nullopt;
    const std::lock_guard lock(mutex_);
    return failed_;
  }

 private:
  bool is_met(std::uint64_t round) const noexcept { return round_.load(std::memory_order_acquire) > round; }

  bool spin(std::uint64_t round) const noexcept {
    const auto end = Clock::now() + barrier_spin;
    do {
      for (int i = 0; i < 32; ++i) {
        if (is_met(round)) return true;
      }
    } while (Clock::now() < end && !is_failed_.load(std::memory_order_relaxed));
    return is_met(round);
  }

  Result<void> sleep_until_met(int rank, std::uint64_t round) {
    std::unique_lock lock(mutex_);
    const bool ended = changed_.wait_for(lock, timeout_, [&] { return is_met(round) || failed_; });
    if (is_met(round)) return {};  // also when somebody left right after the meeting
    if (!ended) {
      failed_ = Error{ErrorCode::timeout, fmt::format("rank {}", rank), missing(round),
                      fmt::format("all ranks within {} ms", timeout_.count())};
      is_failed_.store(true, std::memory_order_release);
      lock.unlock();
      changed_.notify_all();
      lock.lock();
    }
    return *failed_;
  }

  std::string missing(std::uint64_t round) const {
    std::string text = "no sign of rank";
    for (std::size_t rank = 0; rank < arrivals_.size(); ++rank) {
      if (arrivals_[rank].load(std::memory_order_relaxed) <= round) text += fmt::format(" {}", rank);
    }
    return text;
  }

  const std::chrono::milliseconds timeout_;
  std::array<std::vector<Slot>, 2> slots_;
  std::vector<std::atomic<std::uint64_t>> arrivals_;  // [rank] rounds entered; only for naming who is missing
  std::atomic<int> arrived_ = 0;
  std::atomic<std::uint64_t> round_ = 0;  // rounds completed
  std::atomic<bool> is_failed_ = false;   // failed_ is set; readable without the mutex
  std::mutex mutex_;                      // guards failed_ and pairs with changed_
  std::condition_variable changed_;
  std::optional<Error> failed_;
};

class ThreadCommunicator final : public Communicator {
 public:
  ThreadCommunicator(int rank, std::shared_ptr<Group> group) : rank_(rank), group_(std::move(group)) {}
  ThreadCommunicator(const ThreadCommunicator&) = delete;
  ThreadCommunicator& operator=(const ThreadCommunicator&) = delete;
  ~ThreadCommunicator() override {
    group_->fail({ErrorCode::unavailable, fmt::format("rank {}", rank_), "has left the group", ""});
  }

  int rank() const noexcept override { return rank_; }
  int size() const noexcept override { return group_->size(); }

  Result<void> all_gather(std::span<const std::byte> local, std::span<std::byte> all) override {
    if (auto failure = group_->failure()) return *failure;
    if (auto checked = comm::check_blocks(local, all, size()); !checked) {
      group_->fail(checked.error());  // the others would wait in vain
      return checked;
    }
    const std::uint64_t round = round_++;
    auto& slots = group_->slots(round);
    slots[static_cast<std::size_t>(rank_)].assign(local.begin(), local.end());
    if (auto met = group_->meet(rank_, round); !met) return met;
    for (int peer = 0; peer < size(); ++peer) {
      const Slot& slot = slots[static_cast<std::size_t>(peer)];
      if (slot.size() != local.size()) return disagree(peer, slot.size(), local.size());
      if (!slot.empty()) std::memcpy(comm::block_of(all, local.size(), peer).data(), slot.data(), slot.size());
    }
    return {};
  }

  std::optional<Error> failure() override { return group_->failure(); }

  void abort(const std::string& reason) override {
    group_->fail({ErrorCode::cancelled, fmt::format("rank {}", rank_), reason, ""});
  }

 private:
  Result<void> disagree(int peer, std::size_t found, std::size_t expected) {
    group_->fail({ErrorCode::mismatch, fmt::format("rank {}", peer), fmt::format("a block of {} bytes", found),
                  fmt::format("{} bytes as on rank {}", expected, rank_)});
    return *group_->failure();
  }

  const int rank_;
  const std::shared_ptr<Group> group_;
  std::uint64_t round_ = 0;  // rounds entered; only the rank's own thread uses it
};

}  // namespace

std::vector<std::unique_ptr<Communicator>> make_thread_communicators(int n, std::chrono::milliseconds timeout) {
  const auto group = std::make_shared<Group>(std::max(n, 1), timeout);
  std::vector<std::unique_ptr<Communicator>> members;
  for (int rank = 0; rank < group->size(); ++rank) members.push_back(std::make_unique<ThreadCommunicator>(rank, group));
  return members;
}

}  // namespace tandem::gpu
