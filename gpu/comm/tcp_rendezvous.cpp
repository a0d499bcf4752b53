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

std::string address_of(const TcpGroup& group) {
  return fmt::format("{}:{}", group.host, group.port);
}

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

  Result<Links> gather(Deadline deadline) {
    auto listener = listen_on(group_.host, group_.port);
    if (!listener) return listener.error();
    listener_ = std::move(*listener);
    while (missing_ > 0) {
      auto polled = entries();
      const auto ready = wait_ready(polled, deadline);
      if (!ready) return ready.error();
      if (!*ready) return late();
      if (auto taken = take_new(polled.front()); !taken) return taken.error();
      for (std::size_t i = strangers_.size(); i-- > 0;) listen_to(i);
    }
    return welcome_all(deadline);
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

Result<Links> join(const TcpGroup& group, Deadline deadline) {
  const std::string where = address_of(group);
  const auto named = [&](Error error) {
    error.where = where;
    if (error.code == ErrorCode::timeout) error.expected = "a complete group";
    return error;
  };
  auto socket = connect_to(group.host, group.port, deadline);
  if (!socket) return socket.error();
  const Hello hello = make_hello(group.rank, group.size, group.token);
  Answer answer = Answer::wrong_protocol;
  if (auto sent = socket->send_all(bytes_of(hello), deadline); !sent) return named(sent.error());
  if (auto got = socket->receive_all(writable_bytes_of(answer), deadline); !got) return named(got.error());
  if (answer != Answer::welcome) return refusal(answer, where);
  Links links(static_cast<std::size_t>(group.size));
  links[0] = std::move(*socket);
  return links;
}

}  // namespace

Result<Links> meet_group(const TcpGroup& group) {
  if (group.size < 1 || group.rank < 0 || group.rank >= group.size) {
    return Error{ErrorCode::invalid_argument, "TCP group", fmt::format("rank {} of {}", group.rank, group.size),
                 "0 <= rank < size"};
  }
  if (group.size == 1) return Links(1);
  const Deadline deadline = deadline_after(group.connect_timeout);
  if (group.rank == 0) return Host(group).gather(deadline);
  return join(group, deadline);
}

}  // namespace tandem::gpu::comm
