// IncomingFile: a file that arrives in chunks, in any order, over several connections, and over several lives of the
// receiver.
//
// It grows in `.tandem-sync/NAME.part` below the model folder, with a journal beside it of the chunks that are on the
// disk; NAME is made from the file's path. When all chunks are there it is read back, compared with the hash of the
// whole, flushed and renamed: under the final name there is the old file or the new one, never a part of one. Whatever
// kills the process loses at most the chunks since the last flush.
#pragma once

#include <chrono>
#include <filesystem>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "engram/pack/journal.hpp"
#include "gpu/weights_files/receipts.hpp"
#include "net/sync/chunk_set.hpp"

namespace tandem::net::sync {

// What the sender says about a file; the same words after an interruption mean the same file.
struct IncomingIdentity {
  std::string path;
  ChunkShape shape;
  std::uint64_t modified_ns = 0;
  bool operator==(const IncomingIdentity& other) const noexcept {
    return path == other.path && shape.file_bytes == other.shape.file_bytes &&
           shape.chunk_bytes == other.shape.chunk_bytes && modified_ns == other.modified_ns;
  }
};

inline constexpr const char* parts_folder_name = ".tandem-sync";

class IncomingFile {
 public:
  // Opens or creates the part. What an earlier life left is taken over if it was the same file. Errors: io, unavailable
  // (another process receives it), out_of_range (chunks of another size than one may have).
  static Result<std::unique_ptr<IncomingFile>> open(const std::filesystem::path& folder, IncomingIdentity identity);

  const IncomingIdentity& identity() const noexcept { return identity_; }
  // The chunks that need not be sent. Any thread.
  ChunkSet chunks() const;
  // Bytes of the disk that the part has already and that no chunk has used. Any thread. Errors: io.
  Result<std::uint64_t> reserved_bytes() const;
  // Takes the disk's space for all of it, where the file system can; the first chunk does so too. Any thread. Errors:
  // resource (disk full), io.
  Result<void> allocate();
  struct Chunk {
    std::uint64_t index = 0;
    std::span<const std::byte> data;
    std::uint32_t checksum = 0;  // for the journal: the first bytes of its hash
  };
  // Writes one chunk. Any thread; different chunks at the same time. Errors: out_of_range (no such chunk, or another
  // size), invalid_argument (the file is finished), io, resource.
  Result<void> write(const Chunk& chunk);
  // Flushes what was written and notes it in the journal. Any thread. Errors: io.
  Result<void> flush();
  // Takes the final name if everything is there and the whole file has this hash; then returns its receipt. A file with
  // another hash is thrown away. `is_working` hears of every piece that was read back and ends the work by returning
  // false. Errors: mismatch (another hash), invalid_argument (chunks are missing), io, cancelled.
  Result<gpu::FileReceipt> finish(const std::string& sha256, const std::function<bool(std::uint64_t)>& is_working);

 private:
  struct Places {
    std::filesystem::path part, journal, final_name;
  };
  IncomingFile(IncomingIdentity identity, Places places);
  static Places places_of(const std::filesystem::path& folder, const std::string& path);
  Result<void> flush_locked();
  Result<gpu::FileReceipt> publish(const std::string& sha256);
  void discard();

  const IncomingIdentity identity_;
  const Places places_;
  mutable std::mutex mutex_;                  // guards everything below; writes of chunks happen outside
  std::shared_ptr<engram::OutputFile> file_;  // null once it is finished or thrown away
  std::optional<engram::PackJournal> journal_;
  bool is_allocated_ = false;
  ChunkSet chunks_;                               // on the disk or at least written
  std::vector<engram::FinishedBlock> unflushed_;  // of them, not yet in the journal
  std::uint64_t unflushed_bytes_ = 0;
  std::chrono::steady_clock::time_point flushed_at_ = std::chrono::steady_clock::now();
};

}  // namespace tandem::net::sync
