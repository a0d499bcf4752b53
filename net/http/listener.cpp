// Accepting, dealing out and stopping.
#include "net/http/listener.hpp"

#include "net/http/connection.hpp"

#include <fmt/format.h>
#include <pthread.h>
#include <spdlog/spdlog.h>
#include <sys/resource.h>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>

#include <algorithm>
#include <exception>
#include <thread>
#include <utility>
#include <vector>

namespace tandem::net::http {
namespace asio = boost::asio;
using asio::ip::tcp;
using boost::system::error_code;

namespace {

constexpr auto as_result = asio::as_tuple(asio::use_awaitable);
constexpr std::chrono::milliseconds accept_pause{20};   // after "too many open files"
constexpr std::chrono::milliseconds hurry_time{1'000};  // for error events after the patience is over
constexpr std::chrono::milliseconds cut_time{1'500};  // for coroutines to unwind; one that encodes a prompt ends later
constexpr std::size_t descriptors_kept = 128;         // for model files, logs, the console

// A handler that throws (memory above all) loses its own connection and nothing else.
void run_guarded(asio::io_context& context) {
  for (bool is_running = true; is_running;) {
    try {
      context.run();
      is_running = false;
    } catch (const std::exception& error) {
      spdlog::error("a connection ended by an exception: {}", error.what());
    }
  }
}

// One IO thread: its own io_context, so that connections need no strand.
struct IoThread {
  asio::io_context context{1};
  asio::executor_work_guard<asio::io_context::executor_type> work{context.get_executor()};
  std::thread thread;
};

std::size_t descriptor_bound(std::size_t wanted) {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return wanted;
  const auto available = static_cast<std::size_t>(limit.rlim_cur);
  return std::min(wanted, available > 2 * descriptors_kept ? available - descriptors_kept : available / 2);
}

Result<asio::ip::address> parse_address(const std::string& host) {
  error_code error;
  const auto address = asio::ip::make_address(host == "localhost" ? "127.0.0.1" : host, error);
  if (error)
    return Error{ErrorCode::bad_config, "listen address", host, "a numeric IPv4 or IPv6 address, or localhost"};
  return address;
}

// Runs `act` for every open connection on its own thread, which also keeps the last reference there.
void for_each_connection(ConnectionGate& gate, void (Connection::*act)()) {
  for (auto& connection : gate.all()) {
    const auto executor = connection->executor();
    asio::post(executor, [connection = std::move(connection), act] { ((*connection).*act)(); });
  }
}

Error bind_error(const tcp::endpoint& endpoint, const error_code& error) {
  const std::string where = fmt::format("listen on {} port {}", endpoint.address().to_string(), endpoint.port());
  if (error == asio::error::address_in_use)
    return {ErrorCode::unavailable, where, "the port is in use by another process", "a free port"};
  return {ErrorCode::io, where, error.message(), "to be allowed to bind"};
}

}  // namespace

struct Listener::Parts {
  Parts(Service& s, Limits l, int threads)
      : service(s), limits(l), bodies(l.bodies_bytes), gate(descriptor_bound(l.connections)) {
    for (int i = 0; i < std::max(threads, 1); ++i) io.push_back(std::make_unique<IoThread>());
  }

  Awaitable<void> accept_loop();
  void admit(tcp::socket socket);
  // A connection that cannot be set up (memory above all) is dropped; accepting goes on.
  void admit_guarded(tcp::socket socket) noexcept;
  void open(const tcp::endpoint& endpoint, error_code& error);

  Service& service;
  const Limits limits;
  BodyBudget bodies;
  std::vector<std::unique_ptr<IoThread>> io;
  ConnectionGate gate;  // goes before the contexts: it may hold sockets of connections that were cut
  std::unique_ptr<tcp::acceptor> acceptor;
  bool is_running = false;
};

Listener::Listener(Service& service, Limits limits, int io_threads)
    : parts_(std::make_unique<Parts>(service, limits, io_threads)) {}

Listener::~Listener() {
  stop(std::chrono::milliseconds{0});
}

void Listener::Parts::open(const tcp::endpoint& endpoint, error_code& error) {
  acceptor = std::make_unique<tcp::acceptor>(io.front()->context);
  acceptor->open(endpoint.protocol(), error);
  if (!error) acceptor->set_option(tcp::acceptor::reuse_address(true), error);
  if (!error) acceptor->bind(endpoint, error);
  if (!error) acceptor->listen(asio::socket_base::max_listen_connections, error);
  if (error) acceptor.reset();
}

Result<std::uint16_t> Listener::start(const ListenAddress& address) {
  if (parts_->is_running) return Error{ErrorCode::invalid_argument, "listener", "already started", "one start"};
  const auto ip = parse_address(address.host);
  if (!ip) return ip.error();
  const tcp::endpoint endpoint{*ip, address.port};
  error_code error;
  parts_->open(endpoint, error);
  if (error) return bind_error(endpoint, error);
  const std::uint16_t port = parts_->acceptor->local_endpoint(error).port();
  if (error) return bind_error(endpoint, error);
  asio::co_spawn(
      parts_->io.front()->context, [parts = parts_.get()]() -> Awaitable<void> { co_await parts->accept_loop(); },
      [](std::exception_ptr failure) {
        if (failure) spdlog::error("the accept loop ended by an exception");
      });
  for (auto& thread : parts_->io)
    thread->thread = std::thread([context = &thread->context] {
      pthread_setname_np(pthread_self(), "tandem-http");  // to tell its share of the processor's time
      run_guarded(*context);
    });
  parts_->is_running = true;
  return port;
}

Awaitable<void> Listener::Parts::accept_loop() {
  asio::steady_timer pause{io.front()->context};
  for (std::size_t next = 0;; next = (next + 1) % io.size()) {
    auto [error, socket] = co_await acceptor->async_accept(io[next]->context, as_result);
    if (!error) {
      admit_guarded(std::move(socket));
      continue;
    }
    if (error == asio::error::operation_aborted || error == asio::error::bad_descriptor) co_return;
    spdlog::warn("accept failed: {}", error.message());
    pause.expires_after(accept_pause);
    co_await pause.async_wait(as_result);
  }
}

void Listener::Parts::admit(tcp::socket socket) {
  const auto executor = socket.get_executor();
  auto connection = make_connection(std::move(socket), {service, limits, bodies});
  const bool has_entered = gate.enter(connection);
  try {
    asio::post(executor, [this, connection, has_entered] {
      if (has_entered)
        connection->start(gate);
      else
        connection->turn_away();
    });
  } catch (...) {
    gate.leave(connection);
    throw;
  }
}

void Listener::Parts::admit_guarded(tcp::socket socket) noexcept {
  try {
    admit(std::move(socket));
  } catch (const std::exception& failure) {
    spdlog::error("a connection could not be set up: {}", failure.what());
  }
}

std::size_t Listener::stop(std::chrono::milliseconds patience) {
  if (!std::exchange(parts_->is_running, false)) return 0;
  const auto deadline = std::chrono::steady_clock::now() + patience;
  parts_->gate.close();
  asio::post(parts_->io.front()->context, [parts = parts_.get()] {
    error_code ignored;
    parts->acceptor->close(ignored);
  });
  for_each_connection(parts_->gate, &Connection::begin_stop);
  std::size_t cut = 0;
  if (!parts_->gate.wait_empty(deadline)) {
    for_each_connection(parts_->gate, &Connection::hurry);
    parts_->gate.wait_empty(std::chrono::steady_clock::now() + hurry_time);
    cut = parts_->gate.size();
    for_each_connection(parts_->gate, &Connection::abort);
    if (!parts_->gate.wait_empty(std::chrono::steady_clock::now() + cut_time))
      spdlog::error("{} connections did not end after their sockets were closed", parts_->gate.size());
  }
  for (auto& thread : parts_->io) thread->context.stop();
  for (auto& thread : parts_->io) thread->thread.join();
  return cut;
}

std::size_t Listener::connections_max() const {
  return parts_->gate.limit();
}

std::size_t Listener::connections() const {
  return parts_->gate.size();
}

}  // namespace tandem::net::http
