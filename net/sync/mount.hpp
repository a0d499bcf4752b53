// Mount: the line of the mount table under which a folder lies, and whether it is the NFS mount that two nodes should
// share weights through.
//
// Required: version 4.2, read-only for the node that reads, transfers of 1 MiB, hard (a server that reboots makes
// readers wait and never gives them an error), eight connections, and a server that is another machine: an address on
// `lo` means that the data never crosses the cable, or a mount of the node's own export.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "engram/error.hpp"

namespace tandem::net::sync {

struct Mount {
  std::string source, target, type, options;

  // Returns "source target type options".
  std::string text() const;
  // Returns the value of an option ("rsize" of "rsize=1048576"), "" for one without a value; nothing if it is absent.
  std::string_view option(std::string_view name) const noexcept;
  bool has_option(std::string_view name) const noexcept;
  // Returns the server's address as the kernel has it: option addr, else the host of the source.
  std::string server() const;
};

// Reads one line of a mount table; octal escapes (\040) are resolved. Errors: bad_format.
Result<Mount> parse_mount(std::string_view line);

// Returns the mount of `folder`: of the lines of `table` that are above it, the one whose target is longest, the last
// of equals. Errors: io, bad_format, not_found.
Result<Mount> find_mount(const std::filesystem::path& table, const std::filesystem::path& folder);

// Returns the address that this node would use towards a numeric address, or "" if it cannot be told.
std::string own_address_towards(const std::string& address);

// Returns what keeps a mount from being the one described above; nothing if it is. `own_address` is the reader's
// towards the server, or empty.
std::vector<std::string> find_nfs_faults(const Mount& mount, const std::string& own_address);

}  // namespace tandem::net::sync
