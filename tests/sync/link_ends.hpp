// The ends of a link for tests: a receiver of this process on a free port, and clients with and without manners.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/write.hpp>
#include <boost/test/unit_test.hpp>
#include <fstream>
#include <iterator>
#include <string>
#include <thread>

#include "engram/sha256.hpp"
#include "net/sync/answerer.hpp"
#include "net/sync/channel.hpp"
#include "net/sync/server.hpp"
#include "tests/engram/temporary_folder.hpp"

namespace tandem::net::sync::test {

using Folder = engram::test::TemporaryFolder;
namespace asio = boost::asio;
using namespace std::chrono_literals;

inline const std::string secret = "0123456789abcdef0123456789abcdef";

inline Timeouts short_timeouts() {
  Timeouts timeouts;
  timeouts.handshake = 500ms;
  timeouts.idle = 2'000ms;
  return timeouts;
}

inline std::span<const std::byte> bytes_of(const std::string& text) {
  return std::as_bytes(std::span(text));
}
inline std::string sha_of(const std::string& text) {
  return engram::sha256_hex(bytes_of(text));
}

// A receiver of this process on a free port.
struct Receiver {
  explicit Receiver(bool takes_files = true, std::function<void()> on_session_end = {})
      : answerer({.folder = folder.path(), .state_folder = {}, .takes_files = takes_files}),
        server({{"127.0.0.1", 0}, secret, short_timeouts(), {}, std::move(on_session_end)}, answerer),
        port(server.start().value()) {}
  Result<std::unique_ptr<Channel>> connect(const std::string& token = secret) const {
    return Channel::connect({"127.0.0.1", port}, token, short_timeouts());
  }
  // Waits until so many connections were refused or have ended by an error.
  bool wait_for_refusals(std::uint64_t count) const {
    const auto deadline = std::chrono::steady_clock::now() + 10s;
    while (server.counts().refused + server.counts().broken < count) {
      if (std::chrono::steady_clock::now() > deadline) return false;
      std::this_thread::yield();
    }
    return true;
  }

  Folder folder;
  Answerer answerer;
  SyncServer server;
  std::uint16_t port;
};

// A connection without manners.
struct RawClient {
  explicit RawClient(std::uint16_t port) { socket.connect({asio::ip::make_address("127.0.0.1"), port}); }
  void say(std::span<const std::byte> bytes) {
    boost::system::error_code ignored;
    asio::write(socket, asio::buffer(bytes.data(), bytes.size()), ignored);
  }
  template <class T>
  void say_object(const T& value) {
    say(std::as_bytes(std::span(&value, 1)));
  }
  template <class T>
  T hear() {
    T value{};
    asio::read(socket, asio::buffer(&value, sizeof value));
    return value;
  }
  asio::io_context context;
  asio::ip::tcp::socket socket{context};
};

// A client that knows the token and makes its own frames.
struct LyingClient : RawClient {
  explicit LyingClient(std::uint16_t port) : RawClient(port) {
    Hello hello;
    hello.nonce.fill(std::byte{7});
    say_object(hello);
    transcript = {secret, hello.nonce, hear<Hello>().nonce};
    say_object(transcript.client_proof());
    BOOST_TEST((hear<Verdict>() == Verdict::welcome));
    BOOST_TEST(same_code(hear<Code>(), transcript.server_proof()));
  }
  void say_frame(FrameHead head, const std::string& control, std::uint64_t number) {
    const Code code = authenticate(transcript.key_to_server(), {std::as_bytes(std::span(&number, 1)),
                                                                std::as_bytes(std::span(&head, 1)), bytes_of(control)});
    say_object(head);
    say_object(code);
    say(bytes_of(control));
  }
  Transcript transcript;
};

inline FrameHead head_of(const std::string& control) {
  FrameHead head;
  head.control_bytes = static_cast<std::uint32_t>(control.size());
  return head;
}

// A message about the file `path` with this content, of one time of writing.
inline Message message_of(MessageKind kind, const std::string& path, const std::string& content,
                          std::uint64_t index = 0) {
  Message message{kind};
  message.path = path;
  message.bytes = content.size();
  message.modified_ns = 1'796'000'000'000'000'000;
  message.index = index;
  message.chunk_bytes = chunk_bytes_min;
  return message;
}

inline Message offer_of(const std::string& path, const std::string& content) {
  return message_of(MessageKind::offer, path, content);
}

inline Message finish_of(const std::string& path, const std::string& content) {
  Message message = message_of(MessageKind::finish, path, content);
  message.sha256 = sha_of(content);
  return message;
}

// Sends chunks [first, last) of a file.
inline void send_chunks(Channel& channel, const std::string& path, const std::string& content, std::uint64_t first,
                        std::uint64_t last) {
  for (std::uint64_t i = first; i < last; ++i) {
    const auto stored = channel.ask_for(MessageKind::stored, message_of(MessageKind::chunk, path, content, i),
                                        bytes_of(content.substr(i * chunk_bytes_min, chunk_bytes_min)));
    BOOST_REQUIRE_MESSAGE(stored, stored.error().message());
  }
}

inline std::string content_of(const std::filesystem::path& file) {
  std::ifstream stream(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), {}};
}

}  // namespace tandem::net::sync::test
