// Ranks that own one CUDA device each exchange blocks from device to device, in the order of their streams.
//
// NCCL moves bytes, nothing is added in flight: sums are formed by the callers in rank order, as everywhere. The
// control communicator carries all host memory; NCCL itself carries device memory only.
//
// An exchange on a device waits for its peers on the device, where no deadline reaches it. A keeper thread therefore
// looks after the group: while work is watched it asks NCCL for errors and keeps the deadline, and it is the one that
// has the exchanges in flight aborted (nccl_end.hpp). Invariant: the group is used under the mutex only, and group_ is
// null before it is freed.
#include "gpu/comm/nccl_communicator.hpp"

#include <fmt/format.h>

#include <condition_variable>
#include <mutex>
#include <optional>
#include <system_error>
#include <thread>
#include <utility>

#include "gpu/comm/block_layout.hpp"
#include "gpu/comm/nccl_connect.hpp"
#include "gpu/comm/nccl_end.hpp"

namespace tandem::gpu {
namespace {

using Clock = std::chrono::steady_clock;

constexpr auto look_every = std::chrono::milliseconds(20);  // at errors and at the deadline, while work is watched
constexpr auto leave_timeout = std::chrono::seconds(5);     // then whatever still frees the group is left behind

class NcclCommunicator final : public Communicator {
 public:
  // Owns the group from here on.
  NcclCommunicator(NcclApi& nccl, NcclGroup group, const NcclOptions& options)
      : nccl_(nccl), options_(options), group_(group) {}
  NcclCommunicator(const NcclCommunicator&) = delete;
  NcclCommunicator& operator=(const NcclCommunicator&) = delete;
  ~NcclCommunicator() override {
    {
      const std::lock_guard lock(mutex_);
      is_leaving_ = true;
    }
    changed_.notify_all();
    if (keeper_.joinable()) keeper_.join();
    if (group_ != nullptr) leave();
    (void)end_.wait(leave_timeout);
  }

  // Starts the keeper and takes `control` over; leaves it where it is if there is no thread to be had.
  Result<void> start(std::unique_ptr<Communicator>& control) {
    const std::lock_guard lock(mutex_);  // the keeper begins behind it
    try {
      keeper_ = std::thread([this] { keep(); });
    } catch (const std::system_error& failed) {
      is_quiet_ = false;  // nobody leaves in peace: the others wait for this rank
      return comm::nccl_error(ErrorCode::resource, control->rank(), failed.what(), "a thread to look after the group");
    }
    control_ = std::move(control);
    return {};
  }

  int rank() const noexcept override { return control_->rank(); }
  int size() const noexcept override { return control_->size(); }
  bool reaches_devices() const noexcept override { return true; }

  Result<void> all_gather(std::span<const std::byte> local, std::span<std::byte> all) override {
    const auto done = control_->all_gather(local, all);
    if (done) return done;
    if (auto ended = failure()) return *ended;  // the cause, where the control group knows only that it was ended
    return done;
  }

  Result<void> all_gather_on(void* stream, std::span<const std::byte> local, std::span<std::byte> all) override {
    std::unique_lock lock(mutex_);
    if (dead_) return *dead_;
    if (auto checked = comm::check_blocks(local, all, size()); !checked) return checked;
    is_quiet_ = false;
    NcclStatus status = nccl_.all_gather(group_, stream, local, all);
    const auto deadline = Clock::now() + options_.timeout;
    while (status.state == NcclStatus::running) {
      lock.unlock();  // for whoever aborts
      std::this_thread::yield();
      lock.lock();
      if (dead_) return *dead_;
      status = nccl_.state(group_);
      if (Clock::now() >= deadline && status.state == NcclStatus::running) return end(late("an exchange to be issued"));
    }
    if (status.state == NcclStatus::failed) return end(comm::nccl_error(ErrorCode::unavailable, rank(), status.why));
    return {};
  }

  // A peer that left the control group in peace has given everything that this rank needs from it.
  std::optional<Error> failure() override {
    const std::lock_guard lock(mutex_);
    return dead_;
  }

  void watch(bool is_on) override {
    bool must_wake = false;
    {
      const std::lock_guard lock(mutex_);
      is_watching_ = is_on;
      is_quiet_ = !is_on;
      deadline_ = Clock::now() + options_.timeout;
      must_wake = is_on && std::exchange(is_asleep_, false);
    }
    if (must_wake) changed_.notify_all();
  }

  void abort(const std::string& reason) override {
    {
      const std::lock_guard lock(mutex_);
      (void)end(comm::nccl_error(ErrorCode::cancelled, rank(), reason));
    }
    control_->abort(reason);
  }

 private:
  Error late(const char* what) const {
    return comm::nccl_error(ErrorCode::timeout, rank(), fmt::format("waited in vain for {}", what),
                            fmt::format("all ranks within {} ms", options_.timeout.count()));
  }

  // The first error is final; the control group is told of those that this rank finds. Requires the mutex.
  Error end(Error error) {
    must_tell_ = must_tell_ || (!dead_ && error.code != ErrorCode::cancelled);
    if (!dead_) dead_ = std::move(error);
    changed_.notify_all();
    return *dead_;
  }

  void keep() {
    (void)nccl_.select(options_.device);
    std::unique_lock lock(mutex_);
    while (!is_leaving_) {
      if (std::exchange(must_tell_, false)) {
        const std::string why = dead_->message();
        lock.unlock();
        control_->abort(why);  // whoever waits for host memory
        lock.lock();
      } else if (dead_ && !is_quiet_ && group_ != nullptr) {
        end_.abort(nccl_, std::exchange(group_, nullptr), options_.device);
      } else {
        pause(lock);
        look();
      }
    }
  }

  // Sleeps until something changes; while work is watched, and one pause longer, only for a moment: steps follow each
  // other, and a keeper that is awake need not be woken by each.
  void pause(std::unique_lock<std::mutex>& lock) {
    if (!dead_ && !is_asleep_) {
      is_asleep_ = !is_watching_ && !was_watching_;
      was_watching_ = is_watching_;
    }
    if (dead_ || is_asleep_)
      changed_.wait(lock);
    else
      changed_.wait_for(lock, look_every);
  }

  void look() {
    if (dead_ || !is_watching_) return;
    const NcclStatus status = nccl_.state(group_);
    if (status.state == NcclStatus::failed)
      (void)end(comm::nccl_error(ErrorCode::unavailable, rank(), status.why));
    else if (Clock::now() >= deadline_)
      (void)end(late("exchanges on the device"));
  }

  // Frees a group that nobody uses any more: in peace if nothing of it is in flight.
  void leave() {
    if (is_quiet_)
      end_.leave_in_peace(nccl_, group_, options_.device);
    else
      end_.abort(nccl_, group_, options_.device);
  }

  NcclApi& nccl_;
  const NcclOptions options_;
  std::unique_ptr<Communicator> control_;  // since start()
  std::mutex mutex_;                       // guards what follows
  std::condition_variable changed_;
  NcclGroup group_;
  comm::NcclEnd end_;  // of the group
  std::optional<Error> dead_;
  bool must_tell_ = false;  // the control group does not know yet
  bool is_quiet_ = true;    // nothing of the group is in flight
  bool is_watching_ = false;
  bool was_watching_ = false;  // when the keeper paused last
  bool is_asleep_ = false;     // the keeper must be woken
  bool is_leaving_ = false;
  Clock::time_point deadline_{};
  std::thread keeper_;  // last: it uses the others
};

}  // namespace

Result<std::unique_ptr<Communicator>> make_nccl_communicator(NcclApi& nccl, std::unique_ptr<Communicator>& control,
                                                             const NcclOptions& options) {
  const auto group = comm::connect_nccl(nccl, *control, options);
  if (!group) return group.error();
  auto made = std::make_unique<NcclCommunicator>(nccl, *group, options);
  if (auto started = made->start(control); !started) return started.error();
  return std::unique_ptr<Communicator>(std::move(made));
}

}  // namespace tandem::gpu
