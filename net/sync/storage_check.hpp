// What `shared` and `nfs` mean, checked: the other node reads the very bytes that this node has.
#pragma once

#include <filesystem>
#include <string>

#include "net/sync/channel.hpp"

namespace tandem::net::sync {

// shared: a file with random content is written here and read there. Where this node may not write, both have to say
// the same manifest hash and to read the same configuration. Returns what was found. Errors: mismatch (another folder),
// and those of asking.
Result<std::string> check_shared(Channel& channel, const std::filesystem::path& folder);

// nfs: the other node's folder lies on a mount as find_nfs_faults() wants it, and it reads the configuration and one
// page of an Engram table as they are here. Errors: mismatch, and those of asking.
Result<std::string> check_nfs(Channel& channel, const std::filesystem::path& folder);

}  // namespace tandem::net::sync
