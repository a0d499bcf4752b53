// Beast reads the requests; answers are written byte by byte as the test wants them. A thread for each connection.
#include "tests/fetch/faulty_server_fixture.hpp"

#include <fmt/format.h>
#include <sys/socket.h>

#include <algorithm>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ssl.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http.hpp>
#include <chrono>
#include <cstdio>
#include <limits>
#include <random>

namespace tandem::net::fetch::test {

namespace asio = boost::asio;
namespace http = boost::beast::http;
using asio::ip::tcp;
using boost::system::error_code;

namespace {

struct StoredFile {
  std::string content, tag;
};

std::optional<std::pair<std::uint64_t, std::uint64_t>> parse_range(const std::string& field) {
  unsigned long long first = 0, last = 0;
  if (std::sscanf(field.c_str(), "bytes=%llu-%llu", &first, &last) != 2) return std::nullopt;
  return std::pair<std::uint64_t, std::uint64_t>(first, last);
}

}  // namespace

struct FaultyServer::Parts {
  asio::io_context context;
  tcp::acceptor acceptor{context, {asio::ip::address_v4::loopback(), 0}};
  asio::ssl::context* tls = nullptr;
  std::uint16_t port = 0;
  mutable std::mutex mutex;
  std::condition_variable changed;
  std::map<std::string, StoredFile> files;
  std::map<std::string, int> counts;
  std::vector<Ask> asked;
  Conduct conduct;
  std::uint64_t sent = 0;
  std::uint64_t allowance = std::numeric_limits<std::uint64_t>::max();
  bool is_over = false;
  std::set<int> open;
  std::vector<std::thread> serving;  // grows by the accepting thread alone
  std::thread accepting;
};

FaultyServer::FaultyServer(asio::ssl::context* tls) : parts_(std::make_unique<Parts>()) {
  parts_->tls = tls;
  parts_->port = parts_->acceptor.local_endpoint().port();
  parts_->accepting = std::thread([this] { accept(); });
}

FaultyServer::~FaultyServer() {
  {
    const std::lock_guard lock(parts_->mutex);
    parts_->is_over = true;
    ::shutdown(parts_->acceptor.native_handle(), SHUT_RDWR);
    for (const int descriptor : parts_->open) ::shutdown(descriptor, SHUT_RDWR);
    parts_->changed.notify_all();
  }
  parts_->accepting.join();  // nobody adds threads any more
  for (std::thread& thread : parts_->serving) thread.join();
}

void FaultyServer::accept() {
  for (;;) {
    error_code failed;
    tcp::socket socket(parts_->context);
    parts_->acceptor.accept(socket, failed);
    if (failed) return;
    const std::lock_guard lock(parts_->mutex);
    if (parts_->is_over) return;
    const int descriptor = socket.release();
    parts_->open.insert(descriptor);
    parts_->serving.emplace_back([this, descriptor] { open_and_serve(descriptor); });
  }
}

void FaultyServer::open_and_serve(int descriptor) {
  tcp::socket socket(parts_->context, tcp::v4(), descriptor);
  if (parts_->tls == nullptr) {
    serve(socket);
  } else {
    asio::ssl::stream<tcp::socket&> stream(socket, *parts_->tls);
    error_code failed;
    stream.handshake(asio::ssl::stream_base::server, failed);
    if (!failed) serve(stream);
  }
  const std::lock_guard lock(parts_->mutex);
  parts_->open.erase(descriptor);
  error_code ignored;
  socket.close(ignored);
}

template <class Stream>
void FaultyServer::serve(Stream& stream) {
  boost::beast::flat_buffer buffer;
  for (;;) {
    http::request<http::empty_body> request;
    error_code failed;
    http::read(stream, buffer, request, failed);
    if (failed) return;
    Ask ask;
    ask.path = std::string(request.target());
    ask.method = std::string(request.method_string());
    ask.range = parse_range(std::string(request[http::field::range]));
    ask.if_range = std::string(request["If-Range"]);
    ask.authorization = std::string(request[http::field::authorization]);
    const Act act = note(ask);
    if (!answer(stream, ask, act)) return;
  }
}

Act FaultyServer::note(Ask& ask) {
  Conduct conduct;
  {
    const std::lock_guard lock(parts_->mutex);
    ask.nth = ++parts_->counts[ask.path];
    parts_->asked.push_back(ask);
    conduct = parts_->conduct;
  }
  return conduct ? conduct(ask) : Act{};
}

// Returns whether the connection goes on.
template <class Stream>
bool FaultyServer::answer(Stream& stream, const Ask& ask, const Act& act) {
  StoredFile file;
  bool is_there = false;
  {
    const std::lock_guard lock(parts_->mutex);
    const auto at = parts_->files.find(ask.path);
    is_there = at != parts_->files.end();
    if (is_there) file = at->second;
  }
  std::uint64_t first = 0, end = file.content.size();
  int status = act.status != 0 ? act.status : (is_there ? 200 : 404);
  const bool is_same = ask.if_range.empty() || ask.if_range == file.tag;
  std::string head;
  if (status == 200 && ask.range && !act.ignores_range && is_same) {
    status = 206;
    first = ask.range->first;
    end = std::min<std::uint64_t>(ask.range->second + 1, file.content.size());
    head = "Content-Range: " +
           act.content_range.value_or(fmt::format("bytes {}-{}/{}", first, end - 1, file.content.size())) + "\r\n";
  } else if (act.content_range) {
    head = "Content-Range: " + *act.content_range + "\r\n";
  }
  std::string body;
  if (status == 200 || status == 206) body = file.content.substr(first, end - first) + std::string(act.excess, 'x');
  if (!file.tag.empty()) head += "ETag: " + file.tag + "\r\n";
  head += act.is_chunked ? "Transfer-Encoding: chunked\r\n"
                         : fmt::format("Content-Length: {}\r\n", act.length.value_or(body.size()));
  for (const auto& [name, value] : act.fields) head += name + ": " + value + "\r\n";
  error_code failed;
  asio::write(stream, asio::buffer(fmt::format("HTTP/1.1 {} x\r\n{}\r\n", status, head)), failed);
  if (failed) return false;
  if (ask.method == "HEAD") return true;
  return send_body(stream, body, act);
}

template <class Stream>
bool FaultyServer::send_body(Stream& stream, const std::string& body, const Act& act) {
  constexpr std::size_t piece_max = 4096;
  const std::uint64_t end = std::min<std::uint64_t>(act.cut_after.value_or(body.size()), body.size());
  error_code failed;
  for (std::uint64_t at = 0; at < end && !failed;) {
    if (act.trickles && !wait_a_little()) return false;
    const std::uint64_t most = act.trickles ? 1 : piece_max;
    const std::size_t count = take_allowance(static_cast<std::size_t>(std::min(most, end - at)));
    if (count == 0) return false;
    std::string piece = body.substr(at, count);
    if (act.chunk_comment > 0 && !send_chunk_comment(stream, count, act.chunk_comment)) return false;
    if (act.is_chunked)
      piece = fmt::format("{}\r\n{}\r\n", act.chunk_comment > 0 ? "" : fmt::format("{:x}", count), piece);
    asio::write(stream, asio::buffer(piece), failed);
    at += count;
  }
  if (failed) return false;
  if (act.stalls) {
    char byte = 0;
    stream.read_some(asio::buffer(&byte, 1), failed);  // until the client loses its patience
    return false;
  }
  if (act.cut_after) return false;
  if (act.is_chunked) asio::write(stream, asio::buffer("0\r\n\r\n", 5), failed);
  return !failed;
}

// The head of a chunk up to its end of line, byte by byte.
template <class Stream>
bool FaultyServer::send_chunk_comment(Stream& stream, std::size_t chunk_bytes, std::size_t comment_bytes) {
  error_code failed;
  asio::write(stream, asio::buffer(fmt::format("{:x};c=", chunk_bytes)), failed);
  for (std::size_t i = 0; i < comment_bytes && !failed; ++i) {
    if (!wait_a_little()) return false;
    asio::write(stream, asio::buffer("x", 1), failed);
  }
  return !failed;
}

// False when the server ends.
bool FaultyServer::wait_a_little() {
  std::unique_lock lock(parts_->mutex);
  return !parts_->changed.wait_for(lock, std::chrono::milliseconds(10), [&] { return parts_->is_over; });
}

// Waits for permission to send; 0 when the server ends.
std::size_t FaultyServer::take_allowance(std::size_t wanted) {
  std::unique_lock lock(parts_->mutex);
  parts_->changed.wait(lock, [&] { return parts_->is_over || parts_->allowance > 0; });
  if (parts_->is_over) return 0;
  const auto count = static_cast<std::size_t>(std::min<std::uint64_t>(wanted, parts_->allowance));
  parts_->allowance -= count;
  parts_->sent += count;
  parts_->changed.notify_all();
  return count;
}

void FaultyServer::put(const std::string& path, std::string content, std::string tag) {
  const std::lock_guard lock(parts_->mutex);
  parts_->files[path] = {std::move(content), std::move(tag)};
}

void FaultyServer::behave(Conduct conduct) {
  const std::lock_guard lock(parts_->mutex);
  parts_->conduct = std::move(conduct);
}

void FaultyServer::allow(std::uint64_t bytes) {
  const std::lock_guard lock(parts_->mutex);
  parts_->allowance = bytes;
  parts_->changed.notify_all();
}

bool FaultyServer::wait_until_spent() {
  std::unique_lock lock(parts_->mutex);
  return parts_->changed.wait_for(lock, std::chrono::seconds(10), [&] { return parts_->allowance == 0; });
}

std::string FaultyServer::url(const std::string& path) const {
  return fmt::format("{}://127.0.0.1:{}{}", parts_->tls == nullptr ? "http" : "https", parts_->port, path);
}

std::vector<Ask> FaultyServer::asked() const {
  const std::lock_guard lock(parts_->mutex);
  return parts_->asked;
}

void FaultyServer::forget_asked() {
  const std::lock_guard lock(parts_->mutex);
  parts_->asked.clear();
}

std::uint64_t FaultyServer::bytes_sent() const {
  const std::lock_guard lock(parts_->mutex);
  return parts_->sent;
}

std::string make_content(std::size_t bytes, unsigned seed) {
  std::minstd_rand random(seed + 1);
  std::string content(bytes, '\0');
  for (char& c : content) c = static_cast<char>(random() >> 8);
  return content;
}

}  // namespace tandem::net::fetch::test
