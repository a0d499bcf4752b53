// A thread that nobody joins, and a future that nobody waits for longer than the limit.
#include "net/sync/name_lookup.hpp"

#include <fmt/format.h>
#include <pthread.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/address.hpp>
#include <exception>
#include <future>
#include <memory>
#include <utility>

namespace tandem::net::sync {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;

struct Lookup {
  PeerAddress peer;
  NameService service;
  std::promise<Result<Endpoints>> answer;
};

void* run_lookup(void* owned) {
  const std::unique_ptr<Lookup> lookup(static_cast<Lookup*>(owned));
  try {
    lookup->answer.set_value(lookup->service(lookup->peer));
  } catch (const std::exception& failed) {
    lookup->answer.set_value(Error{ErrorCode::unavailable, lookup->peer.text(), failed.what(), "an address"});
  }
  return nullptr;
}

// Gives the lookup to a thread that nobody waits for. False if there is none to be had.
bool start_lookup(std::unique_ptr<Lookup> lookup) {
  pthread_attr_t attributes;
  if (::pthread_attr_init(&attributes) != 0) return false;
  ::pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
  pthread_t thread{};
  const bool is_started = ::pthread_create(&thread, &attributes, run_lookup, lookup.get()) == 0;
  ::pthread_attr_destroy(&attributes);
  if (is_started) (void)lookup.release();  // the thread's now
  return is_started;
}

}  // namespace

Result<Endpoints> ask_system(const PeerAddress& peer) {
  asio::io_context context{1};
  tcp::resolver resolver{context};
  boost::system::error_code failed;
  const auto found = resolver.resolve(peer.host, std::to_string(peer.port), failed);
  if (failed) return Error{ErrorCode::unavailable, peer.text(), failed.message(), "a name that has an address"};
  return Endpoints(found.begin(), found.end());
}

Result<Endpoints> look_up(const PeerAddress& peer, std::chrono::milliseconds limit, const NameService& service) {
  boost::system::error_code is_name;
  const auto numeric = asio::ip::make_address(peer.host, is_name);
  if (!is_name) return Endpoints{{numeric, peer.port}};
  auto lookup = std::make_unique<Lookup>(Lookup{peer, service, {}});
  auto answer = lookup->answer.get_future();
  if (!start_lookup(std::move(lookup))) return Error{ErrorCode::resource, peer.text(), "no thread to look it up", ""};
  if (answer.wait_for(limit) == std::future_status::ready) return answer.get();
  return Error{ErrorCode::timeout, peer.text(), fmt::format("its name was looked up for {} ms", limit.count()),
               "an address"};
}

}  // namespace tandem::net::sync
