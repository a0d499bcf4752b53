// Listing: which files there are to fetch, and from where; of exactly one revision.
//
// A folder on a server lists its files in `tandem-manifest.json`. A hub's repository may have one too; without it the
// index of the weights names the shards, and the hub's own answers tell sizes, hashes and the commit. A revision that
// can move (a branch) is resolved once: everything is then fetched from the commit that it meant.
#pragma once

#include <string>

#include "gpu/weights_files/manifest.hpp"
#include "net/fetch/client.hpp"
#include "net/fetch/progress.hpp"

namespace tandem::net::fetch {

struct Listing {
  gpu::Manifest manifest;
  Url base;  // the files hang below it
};

struct ListingPlan {
  Url base;
  std::string revision;       // that the folder must be of; empty = whatever it is
  std::string recorded;       // revision that an earlier run resolved; empty = none
  std::string recorded_from;  // address that it was resolved for: a commit of one repository is none of another
};

// Errors: not_found (neither manifest nor index), bad_format (of either), mismatch (another revision), bad_config (a
// revision that may move on a server that does not say which commit it is), and those of Client.
Awaitable<Result<Listing>> list_files(Client& client, const FetchLimits& limits, const FetchWatch& watch,
                                      ListingPlan plan);

// Returns where the files of a manifest from elsewhere hang. On a hub's branch that is the commit that the manifest's
// revision names, else the one that the hub names. Errors: bad_config (a branch that may move, and files without a hash
// to tell), and those of Client.
Awaitable<Result<Url>> pin_base(Client& client, const FetchLimits& limits, const FetchWatch& watch,
                                const Listing& listing);

// Checks a manifest's revision against the one that is wanted. Errors: mismatch.
Result<void> check_revision(const gpu::Manifest& manifest, const std::string& wanted);

}  // namespace tandem::net::fetch
