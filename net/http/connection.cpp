// The life of a connection: read a head, let the service judge it, read the body, let a route answer, start over.
//
// While a route works, a watcher looks for the peer's end of file: waiting for readability and asking the kernel
// whether the peer has shut down (POLLRDHUP sees it even behind pipelined bytes). A peer that has closed and one that
// has only said all it had to say look alike. In a stream both count as gone; before a whole answer an interim response
// is sent, which a half-closed client skips and the kernel of a closed one answers with a reset.
#include "net/http/connection.hpp"

#include "net/http/deadline.hpp"
#include "net/http/request_id.hpp"
#include "net/http/request_reader.hpp"
#include "net/http/response_head.hpp"

#include <poll.h>
#include <spdlog/spdlog.h>
#include <sys/socket.h>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>

#include <exception>
#include <utility>

namespace tandem::net::http {
namespace asio = boost::asio;
using asio::ip::tcp;
using boost::system::error_code;

namespace {

constexpr auto as_result = asio::as_tuple(asio::use_awaitable);
// How often a peer that has sent its next request early is asked whether it is still there.
constexpr std::chrono::milliseconds pipelined_poll{50};

enum class PeerState { open, half_closed, gone };

PeerState look_at_peer(tcp::socket& socket) {
  pollfd poll_entry{socket.native_handle(), POLLRDHUP, 0};
  if (::poll(&poll_entry, 1, 0) < 0) return PeerState::gone;
  if ((poll_entry.revents & (POLLHUP | POLLERR | POLLNVAL)) != 0) return PeerState::gone;
  return (poll_entry.revents & POLLRDHUP) != 0 ? PeerState::half_closed : PeerState::open;
}

class SocketConnection final : public Connection, public Exchange {
 public:
  SocketConnection(tcp::socket socket, const ConnectionPeers& peers)
      : socket_(std::move(socket)),
        deadline_(socket_),
        service_(peers.service),
        limits_(peers.limits),
        reader_(socket_, deadline_, peers.limits, peers.bodies),
        watch_timer_(socket_.get_executor()) {}

  void start(ConnectionGate& gate) override;
  void turn_away() override;
  void begin_stop() override;
  void hurry() override;
  void abort() override;

  const Request& request() const noexcept override { return request_; }
  asio::any_io_executor executor() override { return socket_.get_executor(); }
  void release_body() override;
  Awaitable<bool> respond(Response response) override;
  Awaitable<bool> open_stream() override;
  Awaitable<bool> send(std::string_view bytes) override;
  Awaitable<bool> close_stream() override;
  void drop() override { close(); }
  bool has_stalled() const noexcept override { return has_stalled_; }
  bool has_begun() const noexcept override { return has_begun_; }
  void watch(std::function<void(Departure)> told) override;

 private:
  Awaitable<void> run();
  Awaitable<bool> run_exchange();
  Awaitable<void> refuse_and_discard(ReadRefusal refusal);
  Awaitable<void> watch_peer(std::uint64_t round);
  bool is_gone(PeerState state);
  Awaitable<bool> write_all(std::string_view bytes);
  std::shared_ptr<SocketConnection> self() { return std::static_pointer_cast<SocketConnection>(shared_from_this()); }
  void tell(Departure departure);
  void end_watch();
  void close();

  tcp::socket socket_;
  Deadline deadline_;
  Service& service_;
  const Limits& limits_;
  RequestReader reader_;
  asio::steady_timer watch_timer_;
  Request request_;
  std::vector<Header> extra_headers_;
  std::function<void(Departure)> told_;
  std::uint64_t watch_round_ = 0;
  bool keep_alive_ = false;
  bool has_begun_ = false;
  bool has_stalled_ = false;
  bool is_stream_ = false;
  bool has_probed_ = false;
  bool is_chunked_ = false;
  bool is_idle_ = false;
  bool is_stopping_ = false;
  bool is_hurried_ = false;
};

void SocketConnection::start(ConnectionGate& gate) {
  asio::co_spawn(
      socket_.get_executor(), [connection = self()]() -> Awaitable<void> { co_await connection->run(); },
      [connection = self(), &gate](std::exception_ptr failure) {
        connection->close();
        gate.leave(connection);
        if (!failure) return;
        try {
          std::rethrow_exception(failure);
        } catch (const std::exception& error) {
          spdlog::error("a connection ended by an exception: {}", error.what());
        }
      });
}

Awaitable<void> SocketConnection::run() {
  error_code ignored;
  socket_.set_option(tcp::no_delay(true), ignored);
  while (!is_stopping_) {
    is_idle_ = true;
    const bool has_request = co_await reader_.wait_for_request();
    is_idle_ = false;
    if (!has_request) break;
    const bool may_continue = co_await run_exchange();
    end_watch();
    release_body();  // an idle connection holds none
    if (!may_continue) break;
  }
  socket_.shutdown(tcp::socket::shutdown_both, ignored);
}

// Serves one request. Returns whether the connection can carry another one.
Awaitable<bool> SocketConnection::run_exchange() {
  request_ = Request{};
  extra_headers_.clear();
  has_begun_ = keep_alive_ = is_stream_ = has_probed_ = false;
  if (const auto refusal = co_await reader_.read_head(request_)) {
    co_await refuse_and_discard(*refusal);
    co_return false;
  }
  keep_alive_ = reader_.keep_alive() && !request_.is_http_1_0 && !is_stopping_;
  HeadVerdict verdict = service_.admit(request_);
  extra_headers_ = std::move(verdict.headers);
  if (verdict.refusal) {
    // A body that nobody will read cannot be told from the next request.
    keep_alive_ = keep_alive_ && !request_.has_body;
    const bool is_sent = co_await respond(std::move(*verdict.refusal));
    if (is_sent && request_.has_body) co_await reader_.discard_rest();
    co_return is_sent&& keep_alive_;
  }
  if (const auto refusal = co_await reader_.read_body(request_)) {
    co_await refuse_and_discard(*refusal);
    co_return false;
  }
  co_await service_.serve(*this);
  co_return keep_alive_&& has_begun_&& socket_.is_open();
}

Awaitable<void> SocketConnection::refuse_and_discard(ReadRefusal refusal) {
  if (refusal.status == 0) co_return;
  keep_alive_ = false;
  Response response = service_.refuse(refusal.status, refusal.message);
  if (co_await respond(std::move(response))) co_await reader_.discard_rest();
}

void SocketConnection::release_body() {
  std::string{}.swap(request_.body);
  reader_.release_body();
}

Awaitable<bool> SocketConnection::respond(Response response) {
  has_begun_ = true;
  keep_alive_ = keep_alive_ && !is_stopping_;
  if (request_.id.empty()) request_.id = new_request_id();  // its head could not be read
  std::vector<Header> headers = std::move(response.headers);
  headers.insert(headers.end(), extra_headers_.begin(), extra_headers_.end());
  ResponseHead head;
  head.status = response.status;
  head.content_type = response.content_type;
  if (response.status != 204) head.content_length = response.body.size();
  head.keep_alive = keep_alive_;
  head.request_id = request_.id;
  std::string bytes = write_head(head, headers);
  if (request_.method != "HEAD" && response.status != 204) bytes += response.body;
  co_return co_await write_all(bytes);
}

Awaitable<bool> SocketConnection::open_stream() {
  has_begun_ = is_stream_ = true;
  is_chunked_ = !request_.is_http_1_0;
  keep_alive_ = keep_alive_ && is_chunked_ && !is_stopping_;
  std::vector<Header> headers{{"cache-control", "no-cache, no-transform"}, {"x-accel-buffering", "no"}};
  headers.insert(headers.end(), extra_headers_.begin(), extra_headers_.end());
  ResponseHead head;
  head.content_type = "text/event-stream; charset=utf-8";
  head.is_chunked = is_chunked_;
  head.keep_alive = keep_alive_;
  head.request_id = request_.id;
  const std::string bytes = write_head(head, headers);
  co_return co_await write_all(bytes);
}

Awaitable<bool> SocketConnection::send(std::string_view bytes) {
  if (bytes.empty()) co_return true;
  if (!is_chunked_) co_return co_await write_all(bytes);
  const std::string chunk = write_chunk(bytes);
  co_return co_await write_all(chunk);
}

Awaitable<bool> SocketConnection::close_stream() {
  if (!is_chunked_) co_return true;
  co_return co_await write_all("0\r\n\r\n");
}

// The deadline is for progress, not for the whole: a slow reader that reads is served.
Awaitable<bool> SocketConnection::write_all(std::string_view bytes) {
  while (!bytes.empty()) {
    deadline_.arm(limits_.write_stall);
    auto [error, count] = co_await socket_.async_write_some(asio::buffer(bytes), as_result);
    deadline_.disarm();
    if (error) {
      has_stalled_ = deadline_.has_passed();
      close();
      co_return false;
    }
    bytes.remove_prefix(count);
  }
  co_return true;
}

void SocketConnection::watch(std::function<void(Departure)> told) {
  told_ = std::move(told);
  if (is_hurried_) tell(Departure::server_stopping);
  const std::uint64_t round = ++watch_round_;
  asio::co_spawn(
      socket_.get_executor(),
      [connection = self(), round]() -> Awaitable<void> { co_await connection->watch_peer(round); },
      [](std::exception_ptr) {});  // a failed watcher only means that a write will notice instead
}

Awaitable<void> SocketConnection::watch_peer(std::uint64_t round) {
  while (round == watch_round_ && socket_.is_open()) {
    auto [error] = co_await socket_.async_wait(tcp::socket::wait_read, as_result);
    if (round != watch_round_ || error == asio::error::operation_aborted) co_return;
    if (error || is_gone(look_at_peer(socket_))) {
      tell(Departure::peer_gone);
      co_return;
    }
    watch_timer_.expires_after(pipelined_poll);
    co_await watch_timer_.async_wait(as_result);
  }
}

bool SocketConnection::is_gone(PeerState state) {
  if (state != PeerState::half_closed) return state == PeerState::gone;
  if (is_stream_) return true;
  if (has_begun_ || has_probed_ || request_.is_http_1_0) return false;
  has_probed_ = true;
  constexpr std::string_view interim = "HTTP/1.1 100 Continue\r\n\r\n";
  const auto sent = ::send(socket_.native_handle(), interim.data(), interim.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
  return sent != static_cast<ssize_t>(interim.size());
}

void SocketConnection::tell(Departure departure) {
  const auto told = told_;  // the listener may end the watch
  if (told) told(departure);
}

void SocketConnection::end_watch() {
  if (!told_) return;
  ++watch_round_;
  told_ = nullptr;
  watch_timer_.cancel();
  error_code ignored;
  socket_.cancel(ignored);
}

void SocketConnection::close() {
  deadline_.disarm();
  error_code ignored;
  socket_.close(ignored);
}

void SocketConnection::turn_away() {
  asio::co_spawn(
      socket_.get_executor(),
      [connection = self()]() -> Awaitable<void> {
        ReadRefusal refusal{503, "too many connections"};
        co_await connection->refuse_and_discard(refusal);
        connection->close();
      },
      [](std::exception_ptr) {});
}

void SocketConnection::begin_stop() {
  is_stopping_ = true;
  if (!is_idle_) return;
  error_code ignored;
  socket_.cancel(ignored);
}

void SocketConnection::hurry() {
  is_stopping_ = is_hurried_ = true;
  tell(Departure::server_stopping);
}

void SocketConnection::abort() {
  tell(Departure::peer_gone);
  close();
}

}  // namespace

std::shared_ptr<Connection> make_connection(tcp::socket socket, const ConnectionPeers& peers) {
  return std::make_shared<SocketConnection>(std::move(socket), peers);
}

}  // namespace tandem::net::http
