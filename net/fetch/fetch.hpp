// fetch: a model folder, from a server, whole and right. The one entry of this folder.
//
//   lock the folder  ->  list the files (one revision)  ->  clear away what is no longer wanted of unfinished files
//   ->  is there room?  ->  fetch what is missing  ->  join parts  ->  write tandem-manifest.json
//
// May be ended at any time, by a signal, a kill or a power cut, and called again: only segments in flight are lost.
#pragma once

#include <filesystem>
#include <stop_token>
#include <string>

#include "engram/error.hpp"
#include "net/fetch/options.hpp"
#include "net/fetch/progress.hpp"

namespace tandem::net::fetch {

struct FetchOptions {
  std::string from;                     // address of the folder; may be empty if nothing has to be fetched
  std::filesystem::path manifest_file;  // lists the files instead of the server; empty = the server does
  std::filesystem::path folder;         // where the model goes; made if missing
  std::string revision;                 // that it must be; empty = the server's
  bool join_only = false;               // join parts that are in the folder, by the folder's own manifest
  bool keep_parts = false;              // do not remove parts that were joined
  bool is_forced = false;               // even if the disk seems too small
  FetchLimits limits;
  FetchAccess access;
  FetchWatch watch;
  std::stop_token stop;
};

struct FetchReport {
  std::string revision;
  std::string manifest_hash;  // identity of the files that are now there
  std::size_t files = 0;      // that the manifest lists, joined ones once
  std::size_t files_present = 0, files_fetched = 0, files_joined = 0;
  std::uint64_t bytes = 0;  // of all files
  std::uint64_t bytes_received = 0, bytes_resumed = 0;
  int retries = 0;
  double seconds = 0;
};

// Errors: unavailable (another fetch works on the folder, or a server that does not answer), timeout, not_found,
// bad_config, bad_format, mismatch (a hash, a size, a revision, a certificate), resource (disk full), io, cancelled.
Result<FetchReport> fetch(const FetchOptions& options);

// Returns the token in a file of mode 0600, else that of the environment variable TANDEM_FETCH_TOKEN, else an empty
// text. Errors: those of net::http::load_keys().
Result<std::string> find_token(const std::filesystem::path& token_file);

}  // namespace tandem::net::fetch
