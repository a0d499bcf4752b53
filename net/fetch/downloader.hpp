// Downloader: many files over a few connections, each file in segments, until every one is right or given up.
//
// Workers take pieces from the first file that has any, and open the next file when none has. A failing piece is tried
// again by its worker with growing waits; a server that sends the whole file instead of a piece is asked once more
// before the file is taken as a whole; a file that changed on the server or has the wrong hash starts over, twice; a
// file that cannot be had is given up while the others go on. Only what concerns all files ends the whole: a full disk,
// a refused token or certificate.
#pragma once

#include <string>
#include <vector>

#include "net/fetch/client.hpp"
#include "net/fetch/file_task.hpp"
#include "net/fetch/progress.hpp"
#include "net/fetch/session.hpp"
#include "net/fetch/verified_files.hpp"

namespace tandem::net::fetch {

struct DownloadReport {
  int files_present = 0, files_fetched = 0;
  std::uint64_t bytes_received = 0;  // over the network, whatever became of them
  std::uint64_t bytes_resumed = 0;   // of files that earlier runs had begun
  int retries = 0;
  std::vector<std::string> hashes;  // of the files, in the order of the jobs
};

struct DownloadTools {
  Session& session;
  Client& client;
  VerifiedFiles& verified;
  const FetchLimits& limits;
  const FetchWatch& watch;
};

// Fetches what is missing or wrong. After an error everything that is on the disk is of use to the next call. Errors:
// that of the first file that was given up; cancelled (stopped), internal.
Result<DownloadReport> download(const DownloadTools& tools, std::vector<FileJob> jobs);

}  // namespace tandem::net::fetch
