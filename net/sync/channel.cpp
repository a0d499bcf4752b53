// Every wait starts one operation and runs the channel's own context until it is over or the limit passes; then the
// socket is closed, which ends the operation.
#include "net/sync/channel.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <boost/asio/buffer.hpp>
#include <boost/asio/connect.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <chrono>
#include <optional>
#include <vector>

#include "engram/sha256.hpp"
#include "gpu/weights_files/file_hash.hpp"
#include "net/name_lookup.hpp"

namespace tandem::net::sync {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;
using boost::system::error_code;
using Millis = std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

template <class T>
std::span<const std::byte> bytes_of_object(const T& value) {
  return std::as_bytes(std::span(&value, 1));
}
template <class T>
std::span<std::byte> writable_bytes_of_object(T& value) {
  return std::as_writable_bytes(std::span(&value, 1));
}

std::array<std::byte, 32> digest_of(std::span<const std::byte> data) {
  std::array<std::byte, 32> digest{};
  if (data.empty()) return digest;
  gpu::FastSha256 hash;
  hash.update(data);
  const std::string text = hash.finish();
  const auto nibble = [&](std::size_t i) {
    return static_cast<unsigned>(text[i] <= '9' ? text[i] - '0' : text[i] - 'a' + 10);
  };
  for (std::size_t i = 0; i < digest.size(); ++i)
    digest[i] = static_cast<std::byte>(nibble(2 * i) << 4 | nibble(2 * i + 1));
  return digest;
}

// How long to wait for the next byte: so long, and never beyond the end.
struct Limit {
  Millis idle{};
  Clock::time_point end = Clock::time_point::max();
  Millis now() const {
    if (end == Clock::time_point::max()) return idle;
    return std::clamp(std::chrono::ceil<Millis>(end - Clock::now()), Millis{0}, idle);
  }
};

// One direction's key and the number of its next frame.
struct Stream {
  Code key{};
  std::uint64_t frames = 0;

  Code next_code(const FrameHead& head, std::span<const std::byte> control) {
    const std::uint64_t number = frames++;
    return authenticate(key, {bytes_of_object(number), bytes_of_object(head), control});
  }
};

}  // namespace

struct Channel::Parts {
  explicit Parts(Timeouts limits) : timeouts(limits) {}

  // Runs one operation that `start` begins; it is told (error, bytes).
  template <class Start>
  Result<std::size_t> wait(Millis limit, Start start) {
    std::optional<error_code> outcome;
    std::size_t moved = 0;
    start([&](error_code failed, std::size_t bytes) {
      outcome = failed;
      moved = bytes;
    });
    context.restart();
    context.run_for(limit);
    const bool is_late = !outcome.has_value();
    if (is_late) {
      close();
      context.restart();
      context.run();  // the operation's handler comes at once: nothing of this frame may be left behind
      return Error{ErrorCode::timeout, peer_name, fmt::format("nothing moved for {} ms", limit.count()), "an answer"};
    }
    if (!*outcome) return moved;
    const bool is_cancelled = *outcome == asio::error::operation_aborted || *outcome == asio::error::bad_descriptor;
    return Error{is_cancelled ? ErrorCode::cancelled : ErrorCode::unavailable, peer_name, outcome->message(), ""};
  }

  Result<void> write(std::span<const std::byte> bytes, Limit limit) {
    while (!bytes.empty()) {
      const auto sent = wait(limit.now(), [&](auto handler) {
        socket.async_write_some(asio::buffer(bytes.data(), bytes.size()), handler);
      });
      if (!sent) return sent.error();
      bytes = bytes.subspan(*sent);
    }
    return {};
  }

  // Returns 0 if the other end has closed.
  Result<std::size_t> read_some(std::span<std::byte> bytes, Limit limit) {
    bool is_end = false;
    const auto got = wait(limit.now(), [&](auto handler) {
      socket.async_read_some(asio::buffer(bytes.data(), bytes.size()), [&, handler](error_code failed, std::size_t n) {
        is_end = failed == asio::error::eof;
        handler(is_end ? error_code() : failed, n);
      });
    });
    if (!got) return got.error();
    return is_end ? 0 : *got;
  }

  Result<void> read(std::span<std::byte> bytes, Limit limit) {
    while (!bytes.empty()) {
      const auto got = read_some(bytes, limit);
      if (!got) return got.error();
      if (*got == 0) return Error{ErrorCode::unavailable, peer_name, "the connection was closed", "the rest"};
      bytes = bytes.subspan(*got);
    }
    return {};
  }

  Result<void> open(const PeerAddress& peer);
  Result<void> greet_server(const std::string& token);
  Result<void> greet_client(const std::string& token);
  struct Nonces {
    Nonce own{}, peer{};
  };
  Result<Nonces> exchange_hello(bool is_client);

  void close() {
    error_code ignored;
    socket.close(ignored);
  }
  void tune() {
    error_code ignored;
    socket.set_option(tcp::no_delay(true), ignored);
    const auto endpoint = socket.remote_endpoint(ignored);
    if (!ignored) peer_name = PeerAddress{endpoint.address().to_string(), endpoint.port()}.text();
  }

  Timeouts timeouts;
  Limit handshake_limit;
  asio::io_context context{1};
  tcp::socket socket{context};
  std::string peer_name = "the other node";
  Stream out, in;
  std::vector<std::byte> control, data;
};

Result<void> Channel::Parts::open(const PeerAddress& peer) {
  peer_name = peer.text();
  const auto found = look_up(peer.host, peer.port, timeouts.connect);
  if (!found) return found.error();
  const auto connected = wait(timeouts.connect, [&](auto handler) {
    asio::async_connect(socket, *found, [handler](error_code failed, const auto&) { handler(failed, 0); });
  });
  if (!connected) return connected.error();
  tune();
  return {};
}

Result<Channel::Parts::Nonces> Channel::Parts::exchange_hello(bool is_client) {
  const auto nonce = random_nonce();
  if (!nonce) return nonce.error();
  Hello own, peer;
  own.nonce = *nonce;
  const auto say = [&] { return write(bytes_of_object(own), handshake_limit); };
  const auto hear = [&]() -> Result<void> {
    if (auto got = read(writable_bytes_of_object(peer), handshake_limit); !got) return got;
    return check_hello(peer, peer_name);
  };
  // A server says its version before it judges the client's: each end can then say what differs.
  if (is_client) {
    if (auto said = say(); !said) return said.error();
    if (auto heard = hear(); !heard) return heard.error();
  } else {
    const auto heard = hear();
    if (!heard && heard.error().code != ErrorCode::mismatch) return heard.error();
    if (auto said = say(); !said) return said.error();
    if (!heard) return heard.error();
  }
  return Nonces{own.nonce, peer.nonce};
}

Result<void> Channel::Parts::greet_server(const std::string& token) {
  handshake_limit = {timeouts.handshake, Clock::now() + timeouts.handshake};
  const auto nonces = exchange_hello(true);
  if (!nonces) return nonces.error();
  const Transcript transcript{token, nonces->own, nonces->peer};
  if (auto sent = write(transcript.client_proof(), handshake_limit); !sent) return sent;
  auto verdict = Verdict::wrong_token;
  if (auto got = read(writable_bytes_of_object(verdict), handshake_limit); !got) return got;
  if (verdict != Verdict::welcome)
    return Error{ErrorCode::bad_config, peer_name, "another token", "the same token file on both nodes"};
  Code proof{};
  if (auto got = read(proof, handshake_limit); !got) return got;
  if (!same_code(proof, transcript.server_proof()))
    return Error{ErrorCode::bad_config, peer_name, "a node that does not know the token", "the other node"};
  out.key = transcript.key_to_server();
  in.key = transcript.key_to_client();
  return {};
}

Result<void> Channel::Parts::greet_client(const std::string& token) {
  handshake_limit = {timeouts.handshake, Clock::now() + timeouts.handshake};
  const auto nonces = exchange_hello(false);
  if (!nonces) return nonces.error();
  const Transcript transcript{token, nonces->peer, nonces->own};
  Code proof{};
  if (auto got = read(proof, handshake_limit); !got) return got;
  const bool is_welcome = same_code(proof, transcript.client_proof());
  const auto verdict = is_welcome ? Verdict::welcome : Verdict::wrong_token;
  if (auto sent = write(bytes_of_object(verdict), handshake_limit); !sent) return sent;
  if (!is_welcome) return Error{ErrorCode::bad_config, peer_name, "a wrong token", "the same token file on both nodes"};
  if (auto sent = write(transcript.server_proof(), handshake_limit); !sent) return sent;
  in.key = transcript.key_to_server();
  out.key = transcript.key_to_client();
  return {};
}

Channel::Channel(std::unique_ptr<Parts> parts) : parts_(std::move(parts)) {}
Channel::~Channel() = default;

Result<std::unique_ptr<Channel>> Channel::connect(const PeerAddress& peer, const std::string& token,
                                                  const Timeouts& timeouts) {
  auto parts = std::make_unique<Parts>(timeouts);
  if (auto opened = parts->open(peer); !opened) return opened.error();
  if (auto greeted = parts->greet_server(token); !greeted) return greeted.error();
  return std::unique_ptr<Channel>(new Channel(std::move(parts)));
}

Result<std::unique_ptr<Channel>> Channel::accept(tcp::socket socket, const std::string& token,
                                                 const Timeouts& timeouts) {
  auto parts = std::make_unique<Parts>(timeouts);
  error_code failed;
  const auto protocol = socket.local_endpoint(failed).protocol();
  if (!failed) parts->socket.assign(protocol, socket.release(failed), failed);
  if (failed) return Error{ErrorCode::unavailable, "accepted connection", failed.message(), ""};
  parts->tune();
  if (auto greeted = parts->greet_client(token); !greeted) return greeted.error();
  return std::unique_ptr<Channel>(new Channel(std::move(parts)));
}

Result<void> Channel::send(const Message& message, std::span<const std::byte> data) {
  const std::string control = to_json(message);
  FrameHead head;
  head.control_bytes = static_cast<std::uint32_t>(control.size());
  head.data_bytes = static_cast<std::uint32_t>(data.size());
  head.data_sha256 = digest_of(data);
  if (auto ok = check_head(head); !ok) return ok;
  const auto control_bytes = std::as_bytes(std::span(control));
  const Code code = parts_->out.next_code(head, control_bytes);
  const Limit limit{parts_->timeouts.idle};
  std::vector<std::byte> first;
  for (const auto piece : {bytes_of_object(head), std::span<const std::byte>(code), control_bytes})
    first.insert(first.end(), piece.begin(), piece.end());
  if (auto sent = parts_->write(first, limit); !sent) return sent;
  return parts_->write(data, limit);
}

Result<Received> Channel::receive() {
  auto received = receive_unless_closed();
  if (!received) return received.error();
  if (*received) return std::move(**received);
  return Error{ErrorCode::unavailable, parts_->peer_name, "the connection was closed", "an answer"};
}

Result<std::optional<Received>> Channel::receive_unless_closed() {
  FrameHead head;
  const auto bytes = writable_bytes_of_object(head);
  const Limit limit{parts_->timeouts.idle};
  const auto first = parts_->read_some(bytes, limit);
  if (!first) return first.error();
  if (*first == 0) return std::optional<Received>{};
  if (auto got = parts_->read(bytes.subspan(*first), limit); !got) return got.error();
  auto received = receive_rest(head);
  if (!received) return received.error();
  return std::optional(std::move(*received));
}

Result<Received> Channel::receive_rest(const FrameHead& head) {
  // The other end makes no such frame; something between the nodes did.
  if (auto ok = check_head(head); !ok)
    return Error{ErrorCode::corrupt, parts_->peer_name, ok.error().found, ok.error().expected};
  Code code{};
  const Limit limit{parts_->timeouts.idle};
  if (auto got = parts_->read(code, limit); !got) return got.error();
  parts_->control.resize(head.control_bytes);
  if (auto got = parts_->read(parts_->control, limit); !got) return got.error();
  if (!same_code(code, parts_->in.next_code(head, parts_->control)))
    return Error{ErrorCode::corrupt, parts_->peer_name, "a frame with a wrong code", "frames of the other node alone"};
  auto message = parse_message({reinterpret_cast<const char*>(parts_->control.data()), parts_->control.size()});
  if (!message) return message.error();
  // Only now is room made for data: its size was vouched for.
  parts_->data.resize(head.data_bytes);
  if (auto got = parts_->read(parts_->data, limit); !got) return got.error();
  if (digest_of(parts_->data) != head.data_sha256)
    return Error{ErrorCode::corrupt, parts_->peer_name, "data that changed on the way", "what its SHA-256 says"};
  return Received{std::move(*message), parts_->data, head.data_sha256};
}

Result<Received> Channel::ask(const Message& message, std::span<const std::byte> data) {
  if (auto sent = send(message, data); !sent) return sent.error();
  for (;;) {
    auto answer = receive();
    if (!answer) return answer;
    if (answer->message.kind == MessageKind::refused) return error_of(answer->message, parts_->peer_name);
    if (answer->message.kind != MessageKind::working) return answer;
  }
}

Result<Message> Channel::ask_for(MessageKind kind, const Message& message, std::span<const std::byte> data) {
  auto answer = ask(message, data);
  if (!answer) return answer.error();
  if (answer->message.kind == kind) return std::move(answer->message);
  return Error{ErrorCode::bad_format, parts_->peer_name, std::string(to_string(answer->message.kind)),
               std::string(to_string(kind))};
}

void Channel::cancel() {
  asio::post(parts_->context, [parts = parts_.get()] { parts->close(); });
}

const std::string& Channel::peer() const noexcept {
  return parts_->peer_name;
}

}  // namespace tandem::net::sync
