// Connection: one TCP or TLS connection to a server, used for one request at a time.
//
// All Beast and TLS templates of this folder are instantiated in connection.cpp. Every operation has a limit; after an
// error the connection is of no further use. An error that another attempt may mend is `unavailable` or `timeout`; any
// other is final.
#pragma once

#include <boost/beast/http/fields.hpp>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "engram/error.hpp"
#include "net/fetch/awaitable.hpp"
#include "net/fetch/options.hpp"
#include "net/fetch/url.hpp"

namespace boost::asio::ssl {
class context;
}

namespace tandem::net::fetch {

struct RequestHead {
  bool is_head = false;  // HEAD instead of GET
  std::string target;
  std::vector<std::pair<std::string, std::string>> fields;
};

struct ReplyHead {
  int status = 0;
  std::optional<std::uint64_t> content_length;  // as announced, true or not
  boost::beast::http::fields fields;

  // Returns a field's value, empty if there is none.
  std::string field(std::string_view name) const;
};

class Connection {
 public:
  // Connects, and for https shakes hands: the certificate must be valid, trusted and the host's. Errors: unavailable,
  // timeout; mismatch (the certificate is refused).
  static Awaitable<Result<std::unique_ptr<Connection>>> open(const Url& url, const FetchLimits& limits,
                                                             boost::asio::ssl::context& tls);
  virtual ~Connection() = default;

  // Sends a request and reads the head of its answer. Errors: unavailable, timeout.
  virtual Awaitable<Result<ReplyHead>> ask(const RequestHead& request) = 0;
  // Reads what there is of the body, at most out.size() bytes; 0 at its proper end. Errors: unavailable (cut off, not
  // HTTP), timeout.
  virtual Awaitable<Result<std::size_t>> read_some(std::span<std::byte> out) = 0;
  // Returns whether another request may be sent: the answer was read to its end and the server stays.
  virtual bool is_reusable() const noexcept = 0;
};

// Returns whether another attempt may succeed where this error came up.
bool is_transient(const Error& error) noexcept;

}  // namespace tandem::net::fetch
