// IncomingFile: a file that arrives in chunks, in any order, over several connections, and over several lives of the
// receiver.
//
// It grows in `.tandem-sync/NAME.part` below the model folder, with a journal beside it of the chunks that are on the
// disk; NAME is made from the file's path. When all chunks are there it is read back, compared with the hash of the
// whole, flushed and renamed: under the final name there is the old file or the new one, never a part of one. Whatever
// kills the process loses at most the chunks since the last flush.
//
//   closed ----first chunk, or finish()----> open --finish()--> finishing --right or wrong hash--> gone
//     ^                                        ^                    |
//     |  find()                                +---stopped----------+
//
// The part and its lock are held from the first chunk on: a folder of thousands of files that are offered costs no
// descriptors. Nothing is written once the file is being compared; when it is gone the answer is `unavailable`: offer
// it again. No lock is held while the whole is hashed or flushed.
#pragma once

#include <chrono>
#include <condition_variable>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "engram/pack/journal.hpp"
#include "gpu/weights_files/receipts.hpp"
#include "net/sync/chunk_set.hpp"

namespace tandem::net::sync {

// What the sender says about a file.
struct IncomingIdentity {
  std::string path;
  ChunkShape shape;
  std::uint64_t modified_ns = 0;
  std::string sha256;  // empty: the sender does not know it yet
  // Whether the bytes are the same after an interruption, and those of two senders. How they are cut does not matter:
  // the chunks that are there keep their size.
  bool is_same_file(const IncomingIdentity& other) const noexcept;
};

inline constexpr const char* parts_folder_name = ".tandem-sync";

class IncomingFile {
 public:
  // Returns what is there of a file, with the size of chunks that an earlier life began with. Makes and opens nothing.
  // Errors: out_of_range (chunks of another size than one may have).
  static Result<std::shared_ptr<IncomingFile>> find(const std::filesystem::path& folder, IncomingIdentity identity);
  // Removes what is left of an unfinished file whose path has the right bytes by now, unless somebody writes it.
  static void remove_part(const std::filesystem::path& folder, const std::string& path);
  // Removes what is left of all unfinished files that nobody writes, and the folder of parts if it is empty then.
  static void remove_parts(const std::filesystem::path& folder);

  const IncomingIdentity& identity() const noexcept { return identity_; }
  // The chunks that need not be sent. Any thread.
  ChunkSet chunks() const;
  // It has its final name, or was thrown away. Any thread.
  bool is_gone() const;
  // Bytes of the disk that the part will take beyond those that it has. Any thread.
  std::uint64_t bytes_to_allocate() const;
  // Takes the disk's space for all of it, where the file system can; the first chunk does so too. Any thread. Errors:
  // resource (disk full), io, unavailable (another process receives it).
  Result<void> allocate();
  struct Chunk {
    std::uint64_t index = 0;
    std::span<const std::byte> data;
    std::uint32_t checksum = 0;  // for the journal: the first bytes of its hash
  };
  // Writes one chunk; one that is there already is left as it is. Any thread; different chunks at the same time.
  // Errors: out_of_range (no such chunk, or another size), unavailable (the file is gone, its part is another one by
  // now, or another process receives it), io, resource.
  Result<void> write(const Chunk& chunk);
  // Flushes what was written and notes it in the journal. Any thread. Errors: io, resource.
  Result<void> flush();
  // Takes the final name if everything is there and the whole file has this hash; then returns its receipt. A file with
  // another hash is thrown away. Any thread: who comes while another one compares the file waits for the outcome.
  // `is_working` hears of every piece that was read back, and of every second of waiting; false ends the work. Errors:
  // mismatch (another hash), unavailable (chunks are missing, or the file is gone), io, cancelled.
  using IsWorking = std::function<bool(std::uint64_t)>;
  Result<gpu::FileReceipt> finish(const std::string& sha256, const IsWorking& is_working);

 private:
  enum class State : std::uint8_t { closed, open, finishing, gone };
  struct Places {
    std::filesystem::path part, journal, final_name;
  };
  class Writing;
  class Finishing;
  using Finished = std::map<std::size_t, std::uint32_t>;  // chunks of an earlier life with their checksums

  IncomingFile(IncomingIdentity identity, Places places);
  static Places places_of(const std::filesystem::path& folder, const std::string& path);
  std::string journal_words() const;
  Finished read_finished() const;
  Result<void> open_part();
  Result<void> flush_journal();
  template <class IsSo>
  bool wait_until(std::unique_lock<std::mutex>& lock, const IsWorking& is_working, IsSo is_so);
  Result<void> begin_finishing();
  Result<gpu::FileReceipt> compare(const std::string& sha256, const IsWorking& is_working);
  Result<gpu::FileReceipt> publish(const std::string& sha256);
  void let_go(std::optional<gpu::FileReceipt> receipt);
  Error gone_error(std::string found) const;

  const IncomingIdentity identity_;
  const Places places_;
  std::mutex flush_mutex_;  // one flush at a time, and the journal; taken before mutex_, never the other way round
  std::optional<engram::PackJournal> journal_;
  mutable std::mutex mutex_;  // guards everything below; nobody reads, writes or flushes the data under it
  std::condition_variable changed_;
  State state_ = State::closed;
  int writing_ = 0;                               // chunks under way
  std::shared_ptr<engram::OutputFile> part_;      // while open or finishing
  std::optional<gpu::FileReceipt> receipt_;       // gone: of the finished file
  ChunkSet chunks_;                               // on the disk or at least written
  Finished resumed_;                              // of them, those that were there when it was found
  std::vector<engram::FinishedBlock> unflushed_;  // of them, not yet in the journal
  std::uint64_t unflushed_bytes_ = 0;
  std::chrono::steady_clock::time_point flushed_at_;
};

}  // namespace tandem::net::sync
