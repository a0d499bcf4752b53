// Client: requests that follow redirections, over connections that are kept for the next request.
//
// The token goes to the origin of the address that was asked for and nowhere else: a hub sends its files from another
// host, by signed addresses. A redirection never leads from https to http.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "net/fetch/connection.hpp"

namespace tandem::net::fetch {

struct ByteRange {
  std::uint64_t first = 0, last = 0;  // both inclusive, as in the Range field
};

struct Request {
  Url url;
  bool is_head = false;
  std::optional<ByteRange> range;
  std::string if_range;  // the version that the range must be of; empty = any
};

struct Reply {
  ReplyHead head;
  Url url;  // where the answer came from, after all redirections
  // Fields of the redirections before it: a hub tells size, hash and commit in the first answer only.
  std::vector<boost::beast::http::fields> passed;
  std::unique_ptr<Connection> connection;

  // Returns a field of the first answer that has it.
  std::string first_field(std::string_view name) const;
};

class Client {
 public:
  // Errors: bad_config (certificates that cannot be read, a token for an unencrypted address).
  static Result<std::unique_ptr<Client>> create(const Url& first, const FetchLimits& limits, const FetchAccess& access);
  ~Client();

  // Sends a request and returns the first answer that is no redirection. Errors: those of Connection; mismatch (too
  // many redirections, or one to an unencrypted address), bad_format (one that leads nowhere).
  Awaitable<Result<Reply>> ask(Request request);
  // Takes back the connection of an answer that was read to its end; another one is closed.
  void give_back(Reply reply);
  // Closes the connections that nobody uses.
  void drop_idle();

 private:
  struct Trust;
  Client(FetchLimits limits, std::string token, Url first, std::unique_ptr<Trust> trust);

  Awaitable<Result<Reply>> ask_once(const Request& request);
  RequestHead head_of(const Request& request) const;
  Result<Url> redirected(const Url& from, const ReplyHead& head) const;
  std::unique_ptr<Connection> take_idle(const Url& url);

  FetchLimits limits_;
  std::string token_;
  Url token_origin_;
  std::unique_ptr<Trust> trust_;
  std::map<std::string, std::vector<std::unique_ptr<Connection>>> idle_;  // by origin
};

}  // namespace tandem::net::fetch
