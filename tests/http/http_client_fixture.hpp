// A blocking client that sends whatever bytes a test wants and reads answers strictly. Every wait ends after a minute.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tandem::net::http::test {

struct Answer {
  int status = 0;                              // 0: the connection ended before an answer was complete
  std::map<std::string, std::string> headers;  // names in lower case
  std::string body;
};

class HttpClient {
 public:
  explicit HttpClient(std::uint16_t port);
  ~HttpClient();
  HttpClient(HttpClient&& other) noexcept;
  HttpClient(const HttpClient&) = delete;
  HttpClient& operator=(const HttpClient&) = delete;

  void send(std::string_view bytes);
  // Reads one answer with its whole body. `has_body`: false after HEAD.
  Answer read_answer(bool has_body = true);
  Answer read_head();
  // Reads one event of a chunked stream up to and including its empty line; empty at the end of the stream.
  std::string read_event();
  // Returns whether the server closed: end of file (or a reset) and nothing before it.
  bool is_closed_by_server();
  void shrink_receive_buffer();
  void half_close();  // says that nothing more will be sent
  void close();
  void reset();  // closes with RST

  Answer get(std::string_view path, std::string_view headers = "");
  Answer post(std::string_view path, std::string_view body, std::string_view headers = "");

 private:
  bool fill();
  std::optional<std::string> read_line();
  bool read_chunk();
  std::string take(std::size_t count);

  int socket_ = -1;
  std::string buffer_;
  std::string stream_;  // decoded chunks
  bool is_stream_over_ = false;
};

std::string post_text(std::string_view path, std::string_view body, std::string_view headers = "");

// Splits a stream body into its events, each with its empty line.
std::vector<std::string> events_of(std::string_view body);

}  // namespace tandem::net::http::test
