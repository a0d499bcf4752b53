// An address's host within a limit, for a coroutine: net/name_lookup, asked now and then.
#pragma once

#include <chrono>

#include "net/fetch/awaitable.hpp"
#include "net/fetch/url.hpp"
#include "net/name_lookup.hpp"

namespace tandem::net::fetch {

// Returns the addresses of an URL's host with its port, at least one. Errors: those of net::look_up().
Awaitable<Result<Endpoints>> look_up(const Url& url, std::chrono::milliseconds limit, NameService service = ask_system);

}  // namespace tandem::net::fetch
