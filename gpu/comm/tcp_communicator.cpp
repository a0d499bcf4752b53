// Ranks that are processes, on one machine or several, meet over TCP.
//
// The rank's thread does all reading and writing, inside all_gather(). abort() from another thread raises a flag and
// wakes it; if nobody is inside, abort() tells the peers itself. A rank that dies of an error tells its peers why
// before it closes, so that every rank reports the same cause.
#include "gpu/comm/tcp_communicator.hpp"

#include <fmt/format.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <mutex>
#include <optional>

#include "gpu/comm/block_layout.hpp"
#include "gpu/comm/communicator.hpp"
#include "gpu/comm/tcp_exchange.hpp"
#include "gpu/comm/tcp_rendezvous.hpp"

namespace tandem::gpu {
namespace {

using Clock = std::chrono::steady_clock;

// Asking again for a while is quicker than sleeping when the peer computes at the same pace; longer takes cores from
// the compute threads.
constexpr auto spin_time = std::chrono::microseconds(20);

// Wakes a thread in poll().
class Wakeup {
 public:
  Wakeup() : descriptor_(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) {}
  Wakeup(const Wakeup&) = delete;
  Wakeup& operator=(const Wakeup&) = delete;
  ~Wakeup() {
    if (descriptor_ >= 0) ::close(descriptor_);
  }
  bool is_open() const noexcept { return descriptor_ >= 0; }
  pollfd entry() const noexcept { return {descriptor_, POLLIN, 0}; }
  void raise() noexcept {
    const std::uint64_t one = 1;
    (void)!::write(descriptor_, &one, sizeof(one));  // fails only if it is raised already
  }

 private:
  int descriptor_;
};

class TcpCommunicator final : public Communicator {
 public:
  TcpCommunicator(const TcpGroup& group, comm::Links links) : group_(group), links_(std::move(links)) {}

  bool is_usable() const noexcept { return wakeup_.is_open(); }
  int rank() const noexcept override { return group_.rank; }
  int size() const noexcept override { return group_.size; }

  Result<void> all_gather(std::span<const std::byte> local, std::span<std::byte> all) override {
    const std::lock_guard lock(mutex_);
    if (dead_) return *dead_;
    if (is_aborted_.load(std::memory_order_acquire)) return fail(cancelled(), nullptr);
    if (auto checked = comm::check_blocks(local, all, size()); !checked) return fail(checked.error(), nullptr);
    comm::place_own_block(local, all, rank());
    comm::Exchange exchange(links_, rank(), sequence_++, all);
    if (auto done = carry_out(exchange); !done) return fail(done.error(), &exchange);
    return {};
  }

  // Of what this rank has met so far: a peer that is gone shows in the next exchange.
  std::optional<Error> failure() override {
    const std::lock_guard lock(mutex_);
    return dead_;
  }

  void abort(const std::string& reason) override {
    {
      const std::lock_guard lock(reason_mutex_);
      if (!reason_) reason_ = reason;
    }
    is_aborted_.store(true, std::memory_order_release);
    wakeup_.raise();
    const std::lock_guard lock(mutex_);  // whoever is inside all_gather leaves at once
    if (!dead_) (void)fail(cancelled(), nullptr);
  }

 private:
  Result<void> carry_out(comm::Exchange& exchange) {
    const auto started = Clock::now();
    const comm::Deadline deadline = started + group_.timeout;
    auto spin_end = started + spin_time;
    while (!exchange.is_done()) {
      if (is_aborted_.load(std::memory_order_acquire)) return cancelled();
      const auto moved = exchange.advance();
      if (!moved) return moved.error();
      const auto now = Clock::now();
      if (*moved) spin_end = now + spin_time;
      if (now < spin_end) continue;
      auto entries = exchange.wanted();
      entries.push_back(wakeup_.entry());
      const auto ready = comm::wait_ready(entries, deadline);
      if (!ready) return ready.error();
      if (!*ready) {
        return Error{ErrorCode::timeout, fmt::format("rank {}", rank()), "waited in vain for " + exchange.missing(),
                     fmt::format("all ranks within {} ms", group_.timeout.count())};
      }
    }
    return {};
  }

  Error cancelled() {
    const std::lock_guard lock(reason_mutex_);
    return {ErrorCode::cancelled, fmt::format("rank {}", rank()), reason_.value_or("aborted"), ""};
  }

  // Marks this communicator dead, tells the peers why where a frame may begin, and hangs up.
  Error fail(Error error, const comm::Exchange* exchange) {
    dead_ = error;
    const std::string text = (error.where + "\n" + error.found).substr(0, comm::failure_text_max);
    comm::FrameHeader header;
    header.kind = comm::FrameKind::failure;
    header.source = static_cast<std::uint32_t>(rank());
    header.code = static_cast<std::uint32_t>(error.code);
    header.bytes = text.size();
    std::vector<std::byte> frame(comm::bytes_of(header).begin(), comm::bytes_of(header).end());
    frame.insert(frame.end(), std::as_bytes(std::span(text)).begin(), std::as_bytes(std::span(text)).end());
    for (int peer = 0; peer < size(); ++peer) {
      comm::Socket& link = links_[static_cast<std::size_t>(peer)];
      if (!link.is_open()) continue;
      if (exchange == nullptr || exchange->is_between_frames(peer)) (void)link.send_some(frame);
      // Not closed yet: closing with unread data could take the last words back.
      ::shutdown(link.descriptor(), SHUT_WR);
    }
    return error;
  }

  const TcpGroup group_;
  std::mutex mutex_;  // held during an exchange; guards links_, sequence_ and dead_
  comm::Links links_;
  std::uint64_t sequence_ = 0;
  std::optional<Error> dead_;
  std::mutex reason_mutex_;  // guards reason_
  std::optional<std::string> reason_;
  std::atomic<bool> is_aborted_ = false;  // stored (release) after reason_, read (acquire) before it
  Wakeup wakeup_;
};

}  // namespace

Result<std::unique_ptr<Communicator>> make_tcp_communicator(const TcpGroup& group) {
  const std::atomic<bool> never{false};
  return make_tcp_communicator(group, never);
}

Result<std::unique_ptr<Communicator>> make_tcp_communicator(const TcpGroup& group, const std::atomic<bool>& stop) {
  auto links = comm::meet_group(group, stop);
  if (!links) return links.error();
  auto communicator = std::make_unique<TcpCommunicator>(group, std::move(*links));
  if (!communicator->is_usable())
    return Error{ErrorCode::resource, fmt::format("rank {}", group.rank), "no eventfd to be had", ""};
  return std::unique_ptr<Communicator>(std::move(communicator));
}

}  // namespace tandem::gpu
