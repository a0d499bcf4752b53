// Channel: one authenticated connection between two nodes, as messages in and out with deadlines.
//
// Calls block, but never longer than their limit without a byte moving: a cable that is pulled is an error after
// Timeouts::idle. One thread uses a channel; cancel() may come from any. After an error the channel is of no more use.
#pragma once

#include <boost/asio/ip/tcp.hpp>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "engram/error.hpp"
#include "net/sync/handshake.hpp"
#include "net/sync/message.hpp"
#include "net/sync/peer_address.hpp"

namespace tandem::net::sync {

struct Received {
  Message message;
  std::span<const std::byte> data;          // until the next receive()
  std::array<std::byte, 32> data_sha256{};  // was compared with the data
};

class Channel {
 public:
  // Connects and proves both ends. Errors: unavailable (nobody there, or gone), timeout, mismatch (another version),
  // bad_config (the other end has another token, or none), bad_format (something else listens there). The last three
  // are what was said before anything could be proved: who is between the nodes may have said it.
  static Result<std::unique_ptr<Channel>> connect(const PeerAddress& peer, const std::string& token,
                                                  const Timeouts& timeouts);
  // Does the other half on an accepted connection. Errors: as above.
  static Result<std::unique_ptr<Channel>> accept(boost::asio::ip::tcp::socket socket, const std::string& token,
                                                 const Timeouts& timeouts);
  ~Channel();

  // Errors: unavailable, timeout, io.
  Result<void> send(const Message& message, std::span<const std::byte> data = {});
  // Errors: also corrupt (a frame that the other end did not make or not here in the order, data that is not what its
  // hash says: something on the way changed it), bad_format (a message that is none).
  Result<Received> receive();
  // As receive(); nothing if the other end closed between two messages.
  Result<std::optional<Received>> receive_unless_closed();
  // Sends and receives; `working` in between is passed over, a refusal comes back as the other end's error.
  Result<Received> ask(const Message& message, std::span<const std::byte> data = {});
  // As ask(), for the one answer that is wanted. Errors: also bad_format (another one came).
  Result<Message> ask_for(MessageKind answer, const Message& message, std::span<const std::byte> data = {});

  // Ends whatever the channel's thread waits for. Any thread.
  void cancel();
  // The other end as "address:port".
  const std::string& peer() const noexcept;

 private:
  struct Parts;
  Result<Received> receive_rest(const FrameHead& head);
  explicit Channel(std::unique_ptr<Parts> parts);
  std::unique_ptr<Parts> parts_;
};

}  // namespace tandem::net::sync
