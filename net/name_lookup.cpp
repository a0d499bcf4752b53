// A thread that nobody joins, and a future that nobody waits for longer than the limit.
#include "net/name_lookup.hpp"

#include <fmt/format.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/address.hpp>
#include <exception>
#include <memory>
#include <utility>

#include "engram/unwaited_call.hpp"

namespace tandem::net {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;

std::string text_of(const std::string& host, std::uint16_t port) {
  const bool is_numeric6 = host.find(':') != std::string::npos;
  return is_numeric6 ? fmt::format("[{}]:{}", host, port) : fmt::format("{}:{}", host, port);
}

Error lookup_error(ErrorCode code, const std::string& name, const std::string& reason) {
  return {code, name, fmt::format("resolving the name: {}", reason), "a name that has an address"};
}

struct Lookup {
  std::string host;
  std::uint16_t port = 0;
  NameService service;
  std::promise<Result<Endpoints>> answer;
};

void run(Lookup& lookup) {
  try {
    lookup.answer.set_value(lookup.service(lookup.host, lookup.port));
  } catch (...) {
    lookup.answer.set_exception(std::current_exception());  // take() makes an error of it
  }
}

}  // namespace

Result<Endpoints> ask_system(const std::string& host, std::uint16_t port) {
  asio::io_context context{1};
  tcp::resolver resolver{context};
  boost::system::error_code failed;
  const auto flags = tcp::resolver::address_configured | tcp::resolver::numeric_service;
  const auto found = resolver.resolve(host, std::to_string(port), flags, failed);
  if (failed) return lookup_error(ErrorCode::unavailable, text_of(host, port), failed.message());
  if (found.empty()) return lookup_error(ErrorCode::unavailable, text_of(host, port), "no address");
  return Endpoints(found.begin(), found.end());
}

Result<NameLookup> NameLookup::start(const std::string& host, std::uint16_t port, NameService service) {
  std::string name = text_of(host, port);
  const auto lookup = std::make_shared<Lookup>(Lookup{host, port, std::move(service), {}});
  auto answer = lookup->answer.get_future();
  boost::system::error_code is_name;
  const auto numeric = asio::ip::make_address(host, is_name);
  if (!is_name)
    lookup->answer.set_value(Endpoints{{numeric, port}});
  else if (!start_unwaited([lookup] { run(*lookup); }))
    return lookup_error(ErrorCode::resource, name, "no thread for it");
  return NameLookup(std::move(name), std::move(answer));
}

bool NameLookup::wait_for(std::chrono::milliseconds limit) const {
  return answer_.wait_for(limit) == std::future_status::ready;
}

Result<Endpoints> NameLookup::take() {
  try {
    return answer_.get();
  } catch (const std::exception& failed) {
    return lookup_error(ErrorCode::unavailable, name_, failed.what());
  }
}

Error NameLookup::timeout(std::chrono::milliseconds limit) const {
  return lookup_error(ErrorCode::timeout, name_, fmt::format("no answer within {} ms", limit.count()));
}

Result<Endpoints> look_up(const std::string& host, std::uint16_t port, std::chrono::milliseconds limit,
                          NameService service) {
  auto lookup = NameLookup::start(host, port, std::move(service));
  if (!lookup) return lookup.error();
  return lookup->wait_for(limit) ? lookup->take() : lookup->timeout(limit);
}

}  // namespace tandem::net
