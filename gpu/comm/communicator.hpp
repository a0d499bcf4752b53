// Communicator: how the ranks of one model exchange tensors. Control messages never use it, tensors never use anything
// else.
//
// Every rank calls the same operations in the same order. Results are identical on all ranks, bit for bit: sums are
// formed in rank order from gathered parts. Every wait has a deadline; after the first error the communicator is dead
// and every call fails at once.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "engram/error.hpp"

namespace tandem::gpu {

class Communicator {
 public:
  virtual ~Communicator() = default;
  virtual int rank() const noexcept = 0;
  virtual int size() const noexcept = 0;
  // all holds size() blocks of local.size() bytes, rank order; `local` may be the caller's own block inside `all`.
  // Errors: timeout, unavailable (a peer is gone), cancelled (abort was called); `where` names the rank.
  virtual Result<void> all_gather(std::span<const std::byte> local, std::span<std::byte> all) = 0;
  // Whether all_gather_on works here.
  virtual bool reaches_devices() const noexcept { return false; }
  // The same exchange of device memory, as a piece of work of `stream` (a cudaStream_t): returns before it is done, and
  // may be captured into a graph. Errors: invalid_argument (sizes, or a group that reaches no devices), unavailable,
  // timeout, cancelled.
  virtual Result<void> all_gather_on(void* stream, std::span<const std::byte> local, std::span<std::byte> all);
  // From watch(true) on exchanges on devices have the group's deadline and may be ended from outside, also those of
  // graphs; watch(false) says that all of them are done. Without devices nothing needs it.
  virtual void watch(bool) {}
  // The error that ended the group, if one did. An exchange on a device ends without a word when its group does, and
  // leaves behind whatever was there: who has waited for one asks here before using it. Any thread.
  virtual std::optional<Error> failure() { return std::nullopt; }
  // Wakes every waiting rank with `cancelled`; may be called from any thread, any number of times.
  virtual void abort(const std::string& reason) = 0;
};

// Returns the only member of a group of one.
std::unique_ptr<Communicator> make_solo_communicator();

// Returns n connected members for n threads of this process.
std::vector<std::unique_ptr<Communicator>> make_thread_communicators(int n, std::chrono::milliseconds timeout);

struct TcpGroup {
  int rank = 0;
  int size = 1;
  std::string host = "127.0.0.1";  // rank 0 listens here, the others connect here
  std::uint16_t port = 0;
  std::string token;  // run id: peers that say another one are refused
  std::chrono::milliseconds connect_timeout{30'000};
  std::chrono::milliseconds timeout{120'000};
};

// Connects this process to the group (blocking; every rank calls it). Errors: timeout, unavailable, mismatch (token,
// size, rank taken).
Result<std::unique_ptr<Communicator>> make_tcp_communicator(const TcpGroup& group);

}  // namespace tandem::gpu
