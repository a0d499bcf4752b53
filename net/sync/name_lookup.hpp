// Names of nodes to addresses, within a limit.
//
// The C library looks a name up for as long as its servers and modules like, and nothing ends it. So it does that in a
// thread of its own, which owns everything it touches: who has waited long enough leaves it behind, and so does a
// process that ends.
#pragma once

#include <boost/asio/ip/tcp.hpp>
#include <chrono>
#include <functional>
#include <vector>

#include "engram/error.hpp"
#include "net/sync/peer_address.hpp"

namespace tandem::net::sync {

using Endpoints = std::vector<boost::asio::ip::tcp::endpoint>;
using NameService = std::function<Result<Endpoints>(const PeerAddress&)>;

// The system's name service. Errors: unavailable (no such name, no server).
Result<Endpoints> ask_system(const PeerAddress& peer);

// Returns the addresses of a node; a numeric one is its own. Errors: timeout, resource (no thread), those of `service`.
Result<Endpoints> look_up(const PeerAddress& peer, std::chrono::milliseconds limit,
                          const NameService& service = ask_system);

}  // namespace tandem::net::sync
