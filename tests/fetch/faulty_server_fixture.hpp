// A server of files that misbehaves as it is told: it drops, stalls, lies, redirects, forgets ranges. Loopback, any
// free port, with or without TLS. What it was asked and what it sent is on record.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace boost::asio::ssl {
class context;
}

namespace tandem::net::fetch::test {

struct Ask {
  std::string path;
  std::string method;
  std::optional<std::pair<std::uint64_t, std::uint64_t>> range;  // first and last byte
  std::string if_range;
  std::string authorization;
  int nth = 0;  // of the requests for this path, from 1
};

// How one request is answered. The default is the right answer.
struct Act {
  int status = 0;  // 0: 200 or 206; any other has no body
  std::vector<std::pair<std::string, std::string>> fields;
  bool ignores_range = false;
  bool is_chunked = false;                   // no Content-Length
  std::optional<std::uint64_t> length;       // what Content-Length says, whatever is sent
  std::optional<std::uint64_t> cut_after;    // bytes of the body after which nothing more comes
  bool stalls = false;                       // ... and the connection stays open
  bool trickles = false;                     // a byte now and then
  std::size_t chunk_comment = 0;             // bytes now and then in the head of each chunk, before any of the body
  std::uint64_t excess = 0;                  // bytes behind the right ones
  std::optional<std::string> content_range;  // instead of the right one
};

class FaultyServer {
 public:
  using Conduct = std::function<Act(const Ask&)>;

  // `tls`: serves https with this context, which must outlive the server.
  explicit FaultyServer(boost::asio::ssl::context* tls = nullptr);
  ~FaultyServer();
  FaultyServer(const FaultyServer&) = delete;
  FaultyServer& operator=(const FaultyServer&) = delete;

  // The file at a path that begins with '/'; an ETag goes with it unless `tag` is empty.
  void put(const std::string& path, std::string content, std::string tag = "\"1\"");
  void behave(Conduct conduct);
  // At most so many bytes of bodies are sent from now on; then connections wait.
  void allow(std::uint64_t bytes);
  // Waits until allow()'s bytes were sent; false if that takes longer than ten seconds.
  bool wait_until_spent();

  std::string url(const std::string& path = "") const;
  std::vector<Ask> asked() const;
  void forget_asked();
  std::uint64_t bytes_sent() const;

 private:
  struct Parts;
  template <class Stream>
  void serve(Stream& stream);
  template <class Stream>
  bool answer(Stream& stream, const Ask& ask, const Act& act);
  template <class Stream>
  bool send_body(Stream& stream, const std::string& body, const Act& act);
  template <class Stream>
  bool send_chunk_comment(Stream& stream, std::size_t chunk_bytes, std::size_t comment_bytes);
  std::size_t take_allowance(std::size_t wanted);
  bool wait_a_little();
  Act note(Ask& ask);
  void accept();
  void open_and_serve(int descriptor);

  std::unique_ptr<Parts> parts_;
};

// Bytes that look random and are the same every time.
std::string make_content(std::size_t bytes, unsigned seed);

}  // namespace tandem::net::fetch::test
