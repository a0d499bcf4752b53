// CopyFiles: which files a copy is about, what is known of each at the receiver, and what is to be done next. Pure
// bookkeeping: no file and no socket is touched here.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "net/sync/chunk_set.hpp"
#include "net/sync/message.hpp"

namespace tandem::net::sync {

enum class CopyState : std::uint8_t {
  waiting,   // to be offered in this round
  sending,   // some chunks are missing at the receiver
  complete,  // all chunks are there, the whole is to be compared
  done
};

struct CopyFile {
  std::string path;
  std::uint64_t bytes = 0;
  std::uint64_t modified_ns = 0;
  std::string sha256;  // empty: not known yet
  CopyState state = CopyState::waiting;
  bool was_same = false;  // nothing had to be sent
  ChunkShape shape;
  std::uint64_t bytes_there = 0;  // of its chunks, at the receiver
  int mismatches = 0;             // times that the receiver found another hash
};

// What an answer to an offer means.
enum class OfferOutcome : std::uint8_t { same, compare_hashes, send };

// Judges a `have`. `compare_hashes`: the receiver has a file of that size and its hash, we do not know ours. `send`: in
// chunks of the size that the receiver says. Errors: bad_format (an unknown state), out_of_range (no size of chunks).
Result<OfferOutcome> judge_offer(const CopyFile& file, const Message& have);

class CopyFiles {
 public:
  explicit CopyFiles(std::vector<CopyFile> files) : files_(std::move(files)) {}

  std::vector<CopyFile>& files() noexcept { return files_; }
  const std::vector<CopyFile>& files() const noexcept { return files_; }
  bool is_done() const noexcept;
  std::uint64_t bytes_missing() const noexcept;

  // Forgets what the receiver was said to have: a round begins.
  void begin_round();
  void note_same(std::size_t file);
  // From now on its chunks have the size that those have which are there.
  void note_there(std::size_t file, const ChunkSet& there);

  // The next piece of work: a whole file to compare before another chunk to send, files in their order.
  struct Work {
    std::size_t file = 0;
    std::optional<std::uint64_t> chunk;  // nothing: compare the whole
  };
  std::optional<Work> next();
  void note_stored(const Work& work);
  void note_finished(std::size_t file);

 private:
  void note_if_complete(std::size_t file);

  std::vector<CopyFile> files_;
  std::deque<Work> chunks_;                                                         // to be sent, in order
  std::deque<std::size_t> complete_;                                                // to be compared
  std::vector<std::uint64_t> missing_ = std::vector<std::uint64_t>(files_.size());  // chunks not yet stored
};

}  // namespace tandem::net::sync
