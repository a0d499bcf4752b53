// Url: where a file comes from. Only http and https, never with a name or password in it: an address is printed, and a
// secret must not be.
#pragma once

#include <string>
#include <string_view>

#include "engram/error.hpp"

namespace tandem::net::fetch {

struct Url {
  bool is_tls = false;
  std::string host;    // without the brackets of a numeric IPv6 address
  std::string port;    // digits
  std::string target;  // path and query, begins with '/'

  // Errors: bad_config naming the address (another scheme, a user name, no host, a wrong port, blanks or controls).
  static Result<Url> parse(std::string_view text);

  // Returns the address as it is written; the port only where it is not the scheme's own.
  std::string text() const;
  // Returns text() without the query, which may be a signature that lets its holder in.
  std::string text_without_query() const;
  // Returns the value of the Host field.
  std::string host_field() const;
  // Returns whether a secret meant for the one may be told to the other: scheme, host and port are equal.
  bool has_origin_of(const Url& other) const noexcept;
  // Returns the address of a file below this folder; `path` has plain parts and is encoded where it must be.
  Url child(std::string_view path) const;
  // Returns where a redirection's Location leads from here. Errors: bad_format.
  Result<Url> follow(std::string_view location) const;
};

// A hub's address of a folder: https://HOST/OWNER/NAME/resolve/REVISION. The folder's files hang below it.
struct HubAddress {
  Url repository;  // up to and without /resolve
  std::string revision;

  // Returns whether the revision names one state of the repository for ever: a full commit hash.
  bool is_pinned() const noexcept;
  // Returns the folder's address at another revision.
  Url at(std::string_view other_revision) const;
  // Returns the parts of a hub's address; nothing if the address is of another kind.
  static Result<HubAddress> parse(const Url& url);
};

}  // namespace tandem::net::fetch
