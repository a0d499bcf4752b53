// FileTask: one file on its way here: what is missing of it, which version it is of, how often it had to start over.
//
// Belongs to the network thread; only the part file's own functions run elsewhere. A new generation makes segments that
// are still in flight worthless: whoever holds one finds out before he writes the next byte.
#pragma once

#include <deque>
#include <optional>
#include <string>

#include "gpu/weights_files/manifest.hpp"
#include "net/fetch/part_file.hpp"
#include "net/fetch/url.hpp"

namespace tandem::net::fetch {

struct FileJob {
  Url url;
  std::filesystem::path final_path;
  gpu::ManifestEntry entry;
  std::string revision;
};

// A piece of a file that one worker fetches: a segment, or the whole file where the server has no ranges.
struct Piece {
  std::size_t segment = 0;
  std::uint64_t begin = 0, at = 0, end = 0;  // at: the next byte to receive
  std::uint64_t furthest = 0;                // `at` where the last attempt that got further ended
  std::uint64_t generation = 0;
  int wholes = 0;  // answers with the whole file, one after another
};

class FileTask {
 public:
  explicit FileTask(FileJob file_job) : job(std::move(file_job)) {}

  // Takes over what the part file has. Called once it is open, and after it started over.
  void lay_out();
  bool has_pending() const noexcept { return !pending_.empty(); }
  Piece take_pending();
  // The bytes of a piece from `at` on do not count. A piece that became worthless counts for nothing already.
  void take_back(Piece& piece, std::uint64_t at);
  // A piece is complete and on the disk.
  void finish(const Piece& piece);
  bool is_complete() const noexcept { return left_ == 0; }
  // Makes pieces in flight worthless and offers no further ones, until lay_out().
  void invalidate();
  // Offers no further pieces.
  void drop_pending() { pending_.clear(); }
  bool is_current(const Piece& piece) const noexcept { return piece.generation == generation_; }
  // Where to ask next: the address that a redirection led to, as long as that works.
  const Url& address() const noexcept { return resolved ? *resolved : job.url; }

  FileJob job;
  std::optional<PartFile> part;
  std::optional<Url> resolved;
  std::string version;       // of the bytes that are there
  bool has_version = false;  // the part file was told
  bool has_parts = false;    // the server sent parts of it, in this run or an earlier one
  bool is_whole = false;     // the server ignores ranges
  int restarts = 0;
  bool is_settled = false;     // right, or given up
  std::uint64_t received = 0;  // of the bytes that count as progress
  std::string sha256;          // once it is right

 private:
  std::deque<std::size_t> pending_;
  std::size_t left_ = 0;
  std::uint64_t generation_ = 0;
};

}  // namespace tandem::net::fetch
