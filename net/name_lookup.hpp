// Names of machines to addresses, within a limit.
//
// The C library looks a name up for as long as its servers and modules like, minutes if several are silent, and nothing
// ends it. So it does that in a thread of its own, which owns everything it touches: who has waited long enough leaves
// it behind, and so does a process that ends.
#pragma once

#include <boost/asio/ip/tcp.hpp>
#include <chrono>
#include <cstdint>
#include <functional>
#include <future>
#include <string>
#include <vector>

#include "engram/error.hpp"

namespace tandem::net {

using Endpoints = std::vector<boost::asio::ip::tcp::endpoint>;
using NameService = std::function<Result<Endpoints>(const std::string& host, std::uint16_t port)>;

// The system's name service. Errors: unavailable (no such name, no address, no server).
Result<Endpoints> ask_system(const std::string& host, std::uint16_t port);

// A lookup under way. The answer's errors are those of the service; what the service throws is unavailable. Destroying
// it does not wait.
class NameLookup {
 public:
  // Begins; a numeric address is its own answer at once. Errors: resource (no thread).
  static Result<NameLookup> start(const std::string& host, std::uint16_t port, NameService service = ask_system);

  // Returns whether the answer is there, after at most this long.
  bool wait_for(std::chrono::milliseconds limit) const;
  // Takes the answer, once, after wait_for() returned true.
  Result<Endpoints> take();
  // Returns the error of who has waited for `limit` in vain.
  Error timeout(std::chrono::milliseconds limit) const;

 private:
  NameLookup(std::string name, std::future<Result<Endpoints>> answer)
      : name_(std::move(name)), answer_(std::move(answer)) {}

  std::string name_;  // "host:port", for errors
  std::future<Result<Endpoints>> answer_;
};

// Returns the addresses with the port, at least one; waits in this thread. Errors: timeout, resource, the service's.
Result<Endpoints> look_up(const std::string& host, std::uint16_t port, std::chrono::milliseconds limit,
                          NameService service = ask_system);

}  // namespace tandem::net
