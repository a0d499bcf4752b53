// One thread accepts; each connection has its own and says goodbye to the list before it ends.
#include "net/sync/server.hpp"

#include <fmt/format.h>
#include <pthread.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <condition_variable>
#include <exception>
#include <list>
#include <mutex>
#include <thread>

#include "net/sync/channel.hpp"

namespace tandem::net::sync {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;
using boost::system::error_code;

constexpr std::chrono::milliseconds accept_again_after{50};  // when descriptors or memory run out

Error listen_error(const PeerAddress& address, const error_code& failed) {
  const bool is_taken = failed == asio::error::address_in_use;
  return {is_taken ? ErrorCode::unavailable : ErrorCode::io, address.text(), failed.message(),
          "a free port on an address of this node"};
}

}  // namespace

struct SyncServer::Parts {
  Parts(ServerOptions o, Answerer& a) : options(std::move(o)), answerer(a) {}

  struct Connection {
    std::thread thread;
    Channel* channel = nullptr;  // while it can be cancelled
    bool is_over = false;
  };

  Result<std::uint16_t> open();
  void accept_until_stopped() noexcept;
  void accept_next();
  void take(tcp::socket socket);
  void run(tcp::socket socket, Connection& connection);
  void serve(tcp::socket socket, Connection& connection);
  Result<void> talk(Channel& channel);
  void join_finished();
  void log(const std::string& text) const noexcept;
  void note_broken(const std::string& text);
  void note_refused(const std::exception& why) noexcept;

  // A channel that stop() can cancel, as long as there is one.
  class Reachable {
   public:
    Reachable(Parts& parts, Connection& connection, Channel& channel) : parts_(parts), connection_(connection) {
      const std::lock_guard lock(parts_.mutex);
      connection_.channel = &channel;
      if (parts_.is_stopping) channel.cancel();
    }
    Reachable(const Reachable&) = delete;
    Reachable& operator=(const Reachable&) = delete;
    ~Reachable() {
      const std::lock_guard lock(parts_.mutex);
      connection_.channel = nullptr;
    }

   private:
    Parts& parts_;
    Connection& connection_;
  };
  // A connection that the answerer knows of, and hears the end of however it ends.
  class Asking {
   public:
    explicit Asking(Answerer& answerer) : answerer_(answerer) { answerer_.connection_opened(); }
    Asking(const Asking&) = delete;
    Asking& operator=(const Asking&) = delete;
    ~Asking() {
      try {
        answerer_.connection_closed();
      } catch (const std::exception&) {  // no memory: what is not written down is sent once more
        return;
      }
    }

   private:
    Answerer& answerer_;
  };

  const ServerOptions options;
  Answerer& answerer;
  asio::io_context context{1};
  tcp::acceptor acceptor{context};
  asio::steady_timer pause{context};
  std::thread accepting;

  std::mutex mutex;  // guards everything below
  std::list<Connection> connections;
  ServerCounts counts;
  bool is_stopping = false;
};

Result<std::uint16_t> SyncServer::Parts::open() {
  error_code failed;
  const auto address = asio::ip::make_address(options.listen.host, failed);
  const tcp::endpoint endpoint(address, options.listen.port);
  if (!failed) acceptor.open(endpoint.protocol(), failed);
  if (!failed) acceptor.set_option(tcp::acceptor::reuse_address(true), failed);
  if (!failed) acceptor.bind(endpoint, failed);
  if (!failed) acceptor.listen(asio::socket_base::max_listen_connections, failed);
  const std::uint16_t port = failed ? 0 : acceptor.local_endpoint(failed).port();
  if (failed) return listen_error(options.listen, failed);
  return port;
}

// An exception cuts the chain of accepts: it is begun anew. The pause needs no memory, which is what there may lack.
void SyncServer::Parts::accept_until_stopped() noexcept {
  for (bool is_over = false; !is_over;) {
    try {
      accept_next();
      context.run();
      is_over = true;
    } catch (const std::exception& error) {
      note_refused(error);
      context.restart();  // it found itself without work and stopped
      error_code ignored;
      pause.expires_after(accept_again_after);
      pause.wait(ignored);
    }
  }
}

// Ends the chain when stop() has closed the acceptor.
void SyncServer::Parts::accept_next() {
  if (!acceptor.is_open()) return;
  acceptor.async_accept([this](error_code failed, tcp::socket socket) {
    if (failed == asio::error::operation_aborted) return;
    if (!failed) {
      take(std::move(socket));
      return accept_next();
    }
    pause.expires_after(accept_again_after);
    pause.async_wait([this](error_code stopped) {
      if (!stopped) accept_next();
    });
  });
}

void SyncServer::Parts::take(tcp::socket socket) {
  if (options.on_connection) options.on_connection();
  join_finished();
  const std::lock_guard lock(mutex);
  if (is_stopping || connections.size() >= static_cast<std::size_t>(connections_max)) {
    ++counts.refused;
    return;
  }
  Connection& connection = connections.emplace_back();
  try {
    connection.thread = std::thread([this, &connection, moved = std::make_shared<tcp::socket>(std::move(socket))] {
      pthread_setname_np(pthread_self(), "tandem-sync");
      run(std::move(*moved), connection);
    });
  } catch (const std::exception&) {  // no thread to be had
    connections.pop_back();
    ++counts.refused;
  }
}

void SyncServer::Parts::run(tcp::socket socket, Connection& connection) {
  try {
    serve(std::move(socket), connection);
  } catch (const std::exception& error) {
    note_broken(fmt::format("a connection ended by an exception: {}", error.what()));
  }
  const std::lock_guard lock(mutex);
  connection.is_over = true;
}

// What is to be told is told; a listener that throws is not to end the process.
void SyncServer::Parts::log(const std::string& text) const noexcept {
  try {
    if (options.log) options.log(text);
  } catch (const std::exception&) {
    return;
  }
}

void SyncServer::Parts::note_refused(const std::exception& why) noexcept {
  {
    const std::lock_guard lock(mutex);
    ++counts.refused;
  }
  try {
    log(fmt::format("refused: a connection ended by an exception: {}", why.what()));
  } catch (const std::exception&) {
    return;
  }
}

void SyncServer::Parts::note_broken(const std::string& text) {
  {
    const std::lock_guard lock(mutex);
    ++counts.broken;
  }
  log(text);
}

// Threads that are over are joined when the next connection comes, or at the end.
void SyncServer::Parts::join_finished() {
  std::list<Connection> finished;
  {
    const std::lock_guard lock(mutex);
    for (auto at = connections.begin(); at != connections.end();) {
      const auto next = std::next(at);
      if (at->is_over) finished.splice(finished.end(), connections, at);
      at = next;
    }
  }
  for (Connection& connection : finished) connection.thread.join();
}

void SyncServer::Parts::serve(tcp::socket socket, Connection& connection) {
  const auto channel = Channel::accept(std::move(socket), options.token, options.timeouts);
  {
    const std::lock_guard lock(mutex);
    ++(channel ? counts.accepted : counts.refused);
    if (channel && is_stopping) return;
  }
  if (!channel) return log("refused: " + channel.error().message());
  const Reachable reachable(*this, connection, **channel);
  const Asking asking(answerer);
  if (const auto talked = talk(**channel); !talked) note_broken("connection lost: " + talked.error().message());
}

// Ends without an error when the other side closes between two messages.
Result<void> SyncServer::Parts::talk(Channel& channel) {
  for (;;) {
    const auto asked = channel.receive_unless_closed();
    if (!asked) return asked.error();
    if (!*asked) return {};
    const auto& [message, data, data_sha256] = **asked;
    if (message.kind == MessageKind::working) continue;  // the sender hashes a file of its own, or waits for its turn
    const Answerer::Question question{message, data, data_sha256,
                                      [&channel] { return channel.send({MessageKind::working}).has_value(); }};
    if (auto sent = channel.send(answerer.answer(question)); !sent) return sent;
    if (message.kind != MessageKind::end) continue;
    {
      const std::lock_guard lock(mutex);
      ++counts.sessions;
    }
    if (options.on_session_end) options.on_session_end();
  }
}

SyncServer::SyncServer(ServerOptions options, Answerer& answerer)
    : parts_(std::make_unique<Parts>(std::move(options), answerer)) {}

SyncServer::~SyncServer() {
  stop();
}

Result<std::uint16_t> SyncServer::start() {
  auto port = parts_->open();
  if (!port) return port;
  parts_->accepting = std::thread([parts = parts_.get()] { parts->accept_until_stopped(); });
  return port;
}

void SyncServer::stop() {
  if (!parts_->accepting.joinable()) return;
  asio::post(parts_->context, [parts = parts_.get()] {
    error_code ignored;
    parts->acceptor.close(ignored);
    parts->pause.cancel();
  });
  parts_->accepting.join();
  {
    const std::lock_guard lock(parts_->mutex);
    parts_->is_stopping = true;
    for (Parts::Connection& connection : parts_->connections) {
      if (connection.channel != nullptr) connection.channel->cancel();
    }
  }
  for (Parts::Connection& connection : parts_->connections) connection.thread.join();
  parts_->connections.clear();
}

ServerCounts SyncServer::counts() const {
  const std::lock_guard lock(parts_->mutex);
  return parts_->counts;
}

}  // namespace tandem::net::sync
