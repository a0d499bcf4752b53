// Rank 0 listens and judges hellos; a stranger, a stray scanner or a rank of an older run is refused without disturbing
// the others.
#include "gpu/comm/tcp_rendezvous.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "gpu/comm/wire.hpp"

namespace tandem::gpu::comm {
namespace {

// Connections that have not said who they are; more are dropped, the oldest first.
constexpr std::size_t strangers_max = 64;

// A stop is noticed between two waits of this length.
constexpr auto stop_poll = std::chrono::milliseconds(100);

std::string address_of(const TcpGroup& group) {
  return fmt::format("{}:{}", group.host, group.port);
}

// How long this rank waits for the others: until its deadline, or until it is told to stop.
class Patience {
 public:
  Patience(const TcpGroup& group, const std::atomic<bool>& stop)
      : deadline_(deadline_after(group.connect_timeout)), stop_(stop) {}

  Deadline deadline() const noexcept { return deadline_; }
  // The deadline of one short wait.
  Deadline slice() const noexcept { return std::min(deadline_, deadline_after(stop_poll)); }
  bool is_over() const noexcept { return std::chrono::steady_clock::now() >= deadline_; }

  // Waits until one of the entries is ready; false at the deadline. Errors: io, cancelled.
  Result<bool> wait(std::span<pollfd> entries) const {
    for (;;) {
      if (is_stopped()) return cancelled();
      const auto ready = wait_ready(entries, slice());
      if (!ready || *ready || is_over()) return ready;
    }
  }

  bool is_stopped() const noexcept { return stop_.load(std::memory_order_relaxed); }
  Error cancelled() const { return {ErrorCode::cancelled, "rendezvous", "told to stop", "a complete group"}; }

 private:
  const Deadline deadline_;
  const std::atomic<bool>& stop_;  // a flag alone: nothing is published through it
};

// A connection whose hello is still coming in.
struct Stranger {
  Socket socket;
  Hello hello;
  std::size_t got = 0;
};

class Host {
 public:
  explicit Host(const TcpGroup& group)
      : group_(group), own_(make_hello(0, group.size, group.token)), links_(static_cast<std::size_t>(group.size)) {}

  Result<Links> gather(const Patience& patience) {
    auto listener = listen_on(group_.host, group_.port);
    if (!listener) return listener.error();
    listener_ = std::move(*listener);
    while (missing_ > 0) {
      auto polled = entries();
      const auto ready = patience.wait(polled);
      if (!ready) return ready.error();
      if (!*ready) return late();
      if (auto taken = take_new(polled.front()); !taken) return taken.error();
      for (std::size_t i = strangers_.size(); i-- > 0;) listen_to(i);
    }
    return welcome_all(patience.deadline());
  }

 private:
  std::vector<pollfd> entries() const {
    std::vector<pollfd> list{{listener_.descriptor(), POLLIN, 0}};
    for (const Stranger& stranger : strangers_) list.push_back({stranger.socket.descriptor(), POLLIN, 0});
    return list;
  }

  Result<void> take_new(const pollfd& entry) {
    if (entry.revents == 0) return {};
    auto accepted = accept_from(listener_);
    if (!accepted) return accepted.error();
    if (!accepted->is_open()) return {};
    if (strangers_.size() == strangers_max) strangers_.erase(strangers_.begin());
    strangers_.push_back({std::move(*accepted), {}, 0});
    return {};
  }

  // Takes in what stranger `index` has said so far; judges it once it is complete.
  void listen_to(std::size_t index) {
    Stranger& stranger = strangers_[index];
    const auto got = stranger.socket.receive_some(writable_bytes_of(stranger.hello).subspan(stranger.got));
    stranger.got += got ? *got : 0;
    const bool is_complete = stranger.got == sizeof(Hello);
    if (is_complete) admit(stranger);
    if (!got || is_complete) strangers_.erase(strangers_.begin() + static_cast<std::ptrdiff_t>(index));
  }

  void admit(Stranger& stranger) {
    Answer answer = judge(stranger.hello, own_);
    if (answer == Answer::welcome && links_[stranger.hello.rank].is_open()) answer = Answer::wrong_rank;
    if (answer == Answer::welcome) {
      links_[stranger.hello.rank] = std::move(stranger.socket);
      --missing_;
      return;
    }
    ++refused_;
    (void)stranger.socket.send_some(bytes_of(answer));  // four bytes into an empty buffer
  }

  Result<Links> welcome_all(Deadline deadline) {
    const Answer answer = Answer::welcome;
    for (std::size_t rank = 1; rank < links_.size(); ++rank) {
      if (auto sent = links_[rank].send_all(bytes_of(answer), deadline); !sent) {
        return Error{sent.error().code, fmt::format("rank {}", rank), sent.error().found,
                     "a group that stays together"};
      }
    }
    return std::move(links_);
  }

  Error late() const {
    std::string text = "no hello from rank";
    for (std::size_t rank = 1; rank < links_.size(); ++rank) {
      if (!links_[rank].is_open()) text += fmt::format(" {}", rank);
    }
    if (refused_ > 0) text += fmt::format("; {} others were refused", refused_);
    return {ErrorCode::timeout, address_of(group_), text,
            fmt::format("{} ranks within {} ms", group_.size, group_.connect_timeout.count())};
  }

  const TcpGroup& group_;
  const Hello own_;
  Links links_;
  Socket listener_;
  std::vector<Stranger> strangers_;
  int missing_ = group_.size - 1;
  int refused_ = 0;
};

// Tries again while rank 0 does not listen yet.
Result<Socket> reach(const TcpGroup& group, const Patience& patience) {
  for (;;) {
    if (patience.is_stopped()) return patience.cancelled();
    auto socket = connect_to(group.host, group.port, patience.slice());
    if (socket || socket.error().code != ErrorCode::timeout || patience.is_over()) return socket;
  }
}

Result<Links> join(const TcpGroup& group, const Patience& patience) {
  const std::string where = address_of(group);
  const auto named = [&](Error error) {
    error.where = where;
    if (error.code == ErrorCode::timeout) error.expected = "a complete group";
    return error;
  };
  auto socket = reach(group, patience);
  if (!socket) return socket.error();
  const Hello hello = make_hello(group.rank, group.size, group.token);
  Answer answer = Answer::wrong_protocol;
  if (auto sent = socket->send_all(bytes_of(hello), patience.deadline()); !sent) return named(sent.error());
  pollfd entry{socket->descriptor(), POLLIN, 0};
  if (const auto ready = patience.wait({&entry, 1}); !ready) return named(ready.error());
  if (auto got = socket->receive_all(writable_bytes_of(answer), patience.deadline()); !got) return named(got.error());
  if (answer != Answer::welcome) return refusal(answer, where);
  Links links(static_cast<std::size_t>(group.size));
  links[0] = std::move(*socket);
  return links;
}

}  // namespace

Result<Links> meet_group(const TcpGroup& group, const std::atomic<bool>& stop) {
  if (group.size < 1 || group.rank < 0 || group.rank >= group.size) {
    return Error{ErrorCode::invalid_argument, "TCP group", fmt::format("rank {} of {}", group.rank, group.size),
                 "0 <= rank < size"};
  }
  if (group.size == 1) return Links(1);
  const Patience patience(group, stop);
  if (group.rank == 0) return Host(group).gather(patience);
  return join(group, patience);
}

}  // namespace tandem::gpu::comm
