// Connection: one socket from accept to close, and the gate that counts all of them.
//
// All Beast and Asio templates of the request path are instantiated in connection.cpp; routes see an Exchange. A
// connection stays on one IO thread, where all of its functions run.
#pragma once

#include "net/http/body_budget.hpp"
#include "net/http/exchange.hpp"
#include "net/http/limits.hpp"

#include <boost/asio/ip/tcp.hpp>

#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <unordered_set>
#include <vector>

namespace tandem::net::http {

class Connection;

// Counts open connections. None is forgotten: a connection enters before its coroutine starts and leaves when that has
// ended.
class ConnectionGate {
 public:
  explicit ConnectionGate(std::size_t limit) : limit_(limit) {}
  // Returns false when the limit is reached or the gate is closed.
  bool enter(const std::shared_ptr<Connection>& connection);
  void leave(const std::shared_ptr<Connection>& connection);
  // Nobody may enter any more.
  void close();
  std::vector<std::shared_ptr<Connection>> all() const;
  std::size_t size() const;
  std::size_t limit() const noexcept { return limit_; }
  // Returns whether the last connection left before `deadline`.
  bool wait_empty(std::chrono::steady_clock::time_point deadline);

 private:
  const std::size_t limit_;
  mutable std::mutex mutex_;
  std::condition_variable emptied_;
  std::unordered_set<std::shared_ptr<Connection>> open_;
  bool is_closed_ = false;
};

class Connection : public std::enable_shared_from_this<Connection> {
 public:
  virtual ~Connection() = default;
  // The IO thread that every other function must be called on.
  virtual boost::asio::any_io_executor executor() = 0;
  // Starts serving; leaves `gate` at the end. The connection must have entered it.
  virtual void start(ConnectionGate& gate) = 0;
  // Says 503 and closes: the connection limit is reached.
  virtual void turn_away() = 0;
  // Idle: closes now. Busy: the answer in progress is the last one.
  virtual void begin_stop() = 0;
  // Tells the route that the server stops, so that it can end its stream with an error event.
  virtual void hurry() = 0;
  // Closes the socket whatever goes on.
  virtual void abort() = 0;
};

// All references outlive the connection.
struct ConnectionPeers {
  Service& service;
  const Limits& limits;
  BodyBudget& bodies;
};
std::shared_ptr<Connection> make_connection(boost::asio::ip::tcp::socket socket, const ConnectionPeers& peers);

}  // namespace tandem::net::http
