// SyncServer: listens on one address of the fabric and lets an Answerer answer whoever proves to know the token.
//
// A thread a connection: what it does is read, hash and write. Strangers, other versions and garbage are dropped and
// counted; they never reach the answerer. Whatever one connection costs, memory that runs out included, the next one is
// accepted. stop() ends everything within a message's time.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "net/sync/answerer.hpp"
#include "net/sync/handshake.hpp"
#include "net/sync/peer_address.hpp"

namespace tandem::net::sync {

struct ServerCounts {
  std::uint64_t accepted = 0;  // connections that proved the token
  std::uint64_t refused = 0;   // wrong token, another version, no tandem at all, too slow
  std::uint64_t broken = 0;    // accepted ones that ended by an error
  std::uint64_t sessions = 0;  // copies that ended with `end`
};

struct ServerOptions {
  PeerAddress listen;
  std::string token;
  Timeouts timeouts;
  // Told about connections that were refused or broke, and about every session's end. Any thread; may be empty.
  std::function<void(const std::string&)> log;
  std::function<void()> on_session_end;
  // Told about every connection before anybody knows whose it is, in the thread that accepts; may be empty. If it
  // throws, that connection is closed.
  std::function<void()> on_connection = {};
};

class SyncServer {
 public:
  SyncServer(ServerOptions options, Answerer& answerer);
  ~SyncServer();  // stops
  SyncServer(const SyncServer&) = delete;
  SyncServer& operator=(const SyncServer&) = delete;

  // Returns the port. Errors: unavailable (taken), io.
  Result<std::uint16_t> start();
  // Ends all connections and waits for their threads; what arrived is written down.
  void stop();
  ServerCounts counts() const;

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

}  // namespace tandem::net::sync
