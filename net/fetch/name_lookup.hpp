// Name lookup: a host's addresses, within a limit.
//
// The C library looks names up as long as its configuration says, minutes if several servers are silent, and cannot be
// told to stop. So it does that on a thread of its own, and who asked goes on when the time is over.
#pragma once

#include <boost/asio/ip/tcp.hpp>
#include <chrono>
#include <vector>

#include "engram/error.hpp"
#include "net/fetch/awaitable.hpp"
#include "net/fetch/url.hpp"

namespace tandem::net::fetch {

using Endpoints = std::vector<boost::asio::ip::tcp::endpoint>;

// Returns the addresses of an URL's host with its port, at least one. Errors: timeout, unavailable (no such name, or
// nobody who knows).
Awaitable<Result<Endpoints>> look_up(const Url& url, std::chrono::milliseconds limit);

}  // namespace tandem::net::fetch
