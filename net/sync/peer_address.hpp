// Where another node listens, as people write it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "engram/error.hpp"
#include "net/sync/limits.hpp"

namespace tandem::net::sync {

struct PeerAddress {
  std::string host;  // a name or a numeric address
  std::uint16_t port = default_port;
  // Returns "host:port", brackets around an IPv6 address.
  std::string text() const;
};

// Reads "HOST", "HOST:PORT", "ADDRESS6" or "[ADDRESS6]:PORT". Errors: bad_config.
Result<PeerAddress> parse_peer_address(std::string_view text);

// As parse_peer_address(), for the address to listen on: numeric or "localhost", one interface's address and never all
// of them: what is copied is for the other node alone. Port 0 is any free one. Errors: bad_config.
Result<PeerAddress> parse_listen_address(std::string_view text);

}  // namespace tandem::net::sync
