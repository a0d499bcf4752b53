// Asks whether the answer is there, first often, then seldom: most names take a millisecond.
#include "net/fetch/name_lookup.hpp"

#include <algorithm>
#include <charconv>
#include <utility>

namespace tandem::net::fetch {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds first_pause{1}, pause_max{50};

std::uint16_t port_of(const Url& url) {
  std::uint16_t port = 0;  // Url::parse() took nothing but a port
  std::from_chars(url.port.data(), url.port.data() + url.port.size(), port);
  return port;
}

}  // namespace

Awaitable<Result<Endpoints>> look_up(const Url& url, milliseconds limit, NameService service) {
  const auto deadline = std::chrono::steady_clock::now() + limit;
  auto lookup = NameLookup::start(url.host, port_of(url), std::move(service));
  if (!lookup) co_return lookup.error();
  for (milliseconds pause = first_pause; !lookup->wait_for(milliseconds(0)); pause = std::min(2 * pause, pause_max)) {
    if (std::chrono::steady_clock::now() >= deadline) co_return lookup->timeout(limit);
    co_await wait_for(pause);
  }
  co_return lookup->take();
}

}  // namespace tandem::net::fetch
