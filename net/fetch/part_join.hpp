// Joining: a shard that is published in parts, `X.part01`, `X.part02` ..., becomes one file again.
//
// The shard appears under its name when its hash is right, and only then do the parts go: a kill at any point leaves
// either all parts or the whole shard.
#pragma once

#include <filesystem>
#include <vector>

#include "net/fetch/progress.hpp"
#include "net/fetch/verified_files.hpp"

namespace tandem::net::fetch {

struct Join {
  gpu::ManifestEntry whole;
  std::vector<gpu::ManifestEntry> parts;  // in order
};

// Returns the shards that a manifest lists beside their own parts: `X` with `X.partNN`, `X.part-NN` or `X.NN`, NN of
// two or three digits, counted from 0 or 1. Errors: bad_format (a number is missing), mismatch (the sizes do not add
// up).
Result<std::vector<Join>> find_joins(const gpu::Manifest& manifest);

struct JoinOptions {
  bool keep_parts = false;
  std::string fetch_command;                         // what the user types to get what is missing
  std::function<void(const std::string&)> announce;  // told before bytes are copied; may be empty
  std::stop_token stop;
};

struct JoinOutcome {
  bool was_there = false;  // the shard was whole and right already
  std::string sha256;
};

// Errors: not_found (a part is missing, with the command that gets it), mismatch (a part or the whole has the wrong
// hash; the parts stay), io, resource (disk full), cancelled.
Result<JoinOutcome> join_parts(const std::filesystem::path& folder, const Join& join, VerifiedFiles& verified,
                               const JoinOptions& options);

// Removes the parts of a shard that is whole. Errors: io.
Result<void> remove_parts(const std::filesystem::path& folder, const Join& join);

}  // namespace tandem::net::fetch
