// One question to another node: connect, ask, close.
#pragma once

#include <filesystem>
#include <string>

#include "net/sync/channel.hpp"
#include "net/sync/mount.hpp"

namespace tandem::net::sync {

// A node as a command line names it.
struct PeerAddressText {
  std::string address;     // HOST[:PORT]
  std::string token_file;  // path
};

struct PeerRevisionAnswer {
  std::string manifest_hash;  // empty: it has no manifest
  std::string revision;       // the manifest's name for it
};

// Errors: those of parse_peer_address(), load_token() and Channel.
Result<std::unique_ptr<Channel>> connect_peer(const PeerAddressText& peer, const Timeouts& timeouts = {});

// Asks which revision the other node holds.
Result<PeerRevisionAnswer> ask_revision(const PeerAddressText& peer);
Result<PeerRevisionAnswer> ask_revision(Channel& channel);

// Asks under which mount the other node has its model folder, and by which of its addresses it reaches the server.
struct PeerMount {
  Mount mount;
  std::string own_address;
};
Result<PeerMount> ask_mount(Channel& channel);

// Lets the other node read a part of a file and compares it with the same part here. Errors: mismatch (other bytes),
// and those of reading on either side.
struct FilePart {
  std::string path;
  std::uint64_t offset = 0;
  std::uint64_t bytes = 0;
};
Result<void> compare_part(Channel& channel, const std::filesystem::path& folder, const FilePart& part);

}  // namespace tandem::net::sync
