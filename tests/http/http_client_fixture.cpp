// POSIX sockets with a receive time limit.
#include "tests/http/http_client_fixture.hpp"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <stdexcept>
#include <utility>

namespace tandem::net::http::test {

HttpClient::HttpClient(std::uint16_t port) : socket_(::socket(AF_INET, SOCK_STREAM, 0)) {
  const timeval limit{60, 0};  // a loaded machine may stand still for seconds
  ::setsockopt(socket_, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
  ::setsockopt(socket_, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (::connect(socket_, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0)
    throw std::runtime_error("cannot connect");
}

HttpClient::HttpClient(HttpClient&& other) noexcept
    : socket_(std::exchange(other.socket_, -1)),
      buffer_(std::move(other.buffer_)),
      stream_(std::move(other.stream_)),
      is_stream_over_(other.is_stream_over_) {}

HttpClient::~HttpClient() {
  close();
}

void HttpClient::half_close() {
  ::shutdown(socket_, SHUT_WR);
}

void HttpClient::close() {
  if (socket_ >= 0) ::close(std::exchange(socket_, -1));
}

void HttpClient::reset() {
  const linger hard{1, 0};
  ::setsockopt(socket_, SOL_SOCKET, SO_LINGER, &hard, sizeof hard);
  close();
}

void HttpClient::shrink_receive_buffer() {
  const int bytes = 4096;
  ::setsockopt(socket_, SOL_SOCKET, SO_RCVBUF, &bytes, sizeof bytes);
}

void HttpClient::send(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t count = ::send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (count <= 0) return;  // the answer, or its absence, tells
    bytes.remove_prefix(static_cast<std::size_t>(count));
  }
}

bool HttpClient::fill() {
  char bytes[16384];
  const ssize_t count = ::recv(socket_, bytes, sizeof bytes, 0);
  if (count <= 0) return false;
  buffer_.append(bytes, static_cast<std::size_t>(count));
  return true;
}

std::optional<std::string> HttpClient::read_line() {
  std::size_t end = 0;
  while ((end = buffer_.find("\r\n")) == std::string::npos)
    if (!fill()) return std::nullopt;
  std::string line = buffer_.substr(0, end);
  buffer_.erase(0, end + 2);
  return line;
}

std::string HttpClient::take(std::size_t count) {
  while (buffer_.size() < count)
    if (!fill()) break;
  std::string bytes = buffer_.substr(0, count);
  buffer_.erase(0, count);
  return bytes;
}

Answer HttpClient::read_head() {
  Answer answer;
  stream_.clear();
  is_stream_over_ = false;
  const auto status_line = read_line();
  if (!status_line || status_line->size() < 12) return answer;
  const int status = std::atoi(status_line->c_str() + 9);
  for (;;) {
    const auto line = read_line();
    if (!line) return answer;
    if (line->empty()) break;
    const std::size_t colon = line->find(": ");
    std::string name = line->substr(0, colon);
    std::ranges::transform(name, name.begin(),
                           [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; });
    answer.headers[name] = line->substr(colon + 2);
  }
  answer.status = status;
  return answer;
}

bool HttpClient::read_chunk() {
  if (is_stream_over_) return false;
  const auto line = read_line();
  if (!line) return !(is_stream_over_ = true);
  const std::size_t size = std::strtoul(line->c_str(), nullptr, 16);
  stream_ += take(size);
  if (take(2) != "\r\n" || size == 0) is_stream_over_ = true;
  return !is_stream_over_;
}

Answer HttpClient::read_answer(bool has_body) {
  Answer answer = read_head();
  if (answer.status == 0 || answer.status == 204 || !has_body) return answer;
  if (answer.headers.contains("transfer-encoding")) {
    while (read_chunk()) {
    }
    answer.body = std::exchange(stream_, {});
  } else if (answer.headers.contains("content-length")) {
    answer.body = take(std::strtoul(answer.headers["content-length"].c_str(), nullptr, 10));
  } else {
    while (fill()) {
    }
    answer.body = std::exchange(buffer_, {});
  }
  return answer;
}

std::string HttpClient::read_event() {
  std::size_t end = 0;
  while ((end = stream_.find("\n\n")) == std::string::npos)
    if (!read_chunk() && stream_.find("\n\n") == std::string::npos) return {};
  std::string event = stream_.substr(0, end + 2);
  stream_.erase(0, end + 2);
  return event;
}

bool HttpClient::is_closed_by_server() {
  errno = 0;
  return buffer_.empty() && !fill() && errno != EAGAIN && errno != EWOULDBLOCK;
}

Answer HttpClient::get(std::string_view path, std::string_view headers) {
  send(fmt::format("GET {} HTTP/1.1\r\nHost: t\r\n{}\r\n", path, headers));
  return read_answer();
}

Answer HttpClient::post(std::string_view path, std::string_view body, std::string_view headers) {
  send(post_text(path, body, headers));
  return read_answer();
}

std::string post_text(std::string_view path, std::string_view body, std::string_view headers) {
  return fmt::format("POST {} HTTP/1.1\r\nHost: t\r\nContent-Type: application/json\r\nContent-Length: {}\r\n{}\r\n{}",
                     path, body.size(), headers, body);
}

std::vector<std::string> events_of(std::string_view body) {
  std::vector<std::string> events;
  while (!body.empty()) {
    const std::size_t end = body.find("\n\n");
    const std::size_t size = end == std::string_view::npos ? body.size() : end + 2;
    events.emplace_back(body.substr(0, size));
    body.remove_prefix(size);
  }
  return events;
}

}  // namespace tandem::net::http::test
