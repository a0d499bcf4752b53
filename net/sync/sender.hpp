// copy_model: sends the files of a model folder to a receiver, over several connections, and comes back until they are
// all there.
//
// It works in rounds. A round offers every file that is not finished, learns which chunks are missing, sends them and
// lets the receiver compare whole files. Any lost connection ends the round; the next one begins with new offers, so
// that neither side needs to remember what the other one knew. So does a file that the receiver no longer knows
// (another sender finished it) or that arrived with another hash. Rounds end when everything is there, when an error
// says that trying again is useless, or when nothing was gained for `patience`.
#pragma once

#include <chrono>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "gpu/weights_files/manifest.hpp"
#include "net/sync/channel.hpp"

namespace tandem::net::sync {

struct CopyProgress {
  std::uint64_t bytes_done = 0;   // at the receiver, what was there included
  std::uint64_t bytes_total = 0;  // of the files that are not the same already
  std::size_t files_done = 0, files_total = 0;
  double bytes_per_s = 0;  // sent
  double eta_s = 0;        // 0 while the rate is unknown
};

struct CopyOptions {
  std::filesystem::path folder;
  std::filesystem::path state_folder;  // second place of receipts; may be empty
  PeerAddress peer;
  std::string token;
  Timeouts timeouts;
  std::chrono::milliseconds patience{300'000};
  int connections = 8;
  std::uint64_t chunk_bytes = chunk_bytes_default;
  std::uint64_t bytes_per_s_max = 0;  // 0 = as fast as it goes: the same cable carries the tensors
  bool is_forced = false;             // send what the receiver has as well
  // Told about twice a second, in the calling thread; returning false ends with `cancelled`. May be empty.
  std::function<bool(const CopyProgress&)> progress;
  std::function<void(const std::string&)> announce;  // what was found and decided; may be empty
};

struct CopyOutcome {
  std::size_t files = 0, files_same = 0;  // all, and of them those that were there
  std::uint64_t bytes_sent = 0;           // by this run, repetitions included
  std::uint64_t bytes_resumed = 0;        // of unfinished files, there from an earlier run or round when first offered
  int rounds = 0;
  double seconds = 0;
  std::string manifest_hash;  // what both nodes hold now
};

// Copies all files that list_copy() names, and then the manifest: the one in the folder, or one that is made from the
// hashes and written here as well. Errors: not_found, io (files here), mismatch (a file that is not what the manifest
// says, or never arrives as it is; another protocol, said several times), bad_config (another token, said several
// times), resource (the receiver's disk), timeout or unavailable (nothing was gained for `patience`), cancelled.
Result<CopyOutcome> copy_model(const CopyOptions& options);

}  // namespace tandem::net::sync
