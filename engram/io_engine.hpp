// IoEngine: many reads at once. A drive answers one read at a time slowly and a hundred at a time hardly slower: depth
// is everything.
//
// Bytes arrive in buffers of the engine and are handed to a sink; a request either delivers all its needed bytes or the
// batch fails. After an error nothing of the batch is in flight any more, so the caller may free what the sink points
// to.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>

#include "engram/input_file.hpp"

namespace tandem::engram {

struct ReadRequest {
  const InputFile* file = nullptr;
  std::uint64_t offset = 0;  // multiple of the file's alignment
  std::size_t bytes = 0;     // multiple of the file's alignment, at most slot_bytes
  std::size_t needed =
      0;  // a read that ends before this many bytes is an error; the rest may lie behind the file's end
};

// Receives the bytes (at least `needed`) of requests[index]. May be called from several threads at once, once a
// request.
using ReadSink = std::function<void(std::size_t index, std::span<const std::byte> bytes)>;

class IoEngine {
 public:
  virtual ~IoEngine() = default;
  virtual const char* name() const noexcept = 0;
  // Performs all reads; thread-safe (batches run one after another). Errors: io, naming the file and offset, or that
  // io_uring heard nothing from the disk for 30 s (the engine is then broken and says so from now on). The first error
  // stops further submissions.
  virtual Result<void> run(std::span<const ReadRequest> requests, const ReadSink& sink) = 0;
};

inline constexpr std::size_t slot_bytes = 64 * 1024;  // buffer of one read in flight

// Submits reads through io_uring with `depth` registered buffers. Errors: `unavailable` where the kernel or a container
// forbids it.
Result<std::unique_ptr<IoEngine>> make_uring_engine(int depth);
// Reads with `threads` threads and pread.
std::unique_ptr<IoEngine> make_pread_engine(int threads);

}  // namespace tandem::engram
