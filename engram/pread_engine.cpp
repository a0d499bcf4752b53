// The engine that works everywhere: a pool of threads, each with one buffer and one blocking read at a time.
//
// One batch is current at a time; workers take its requests one by one, so the number of reads in flight is the number
// of threads.
#include <fmt/format.h>

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "engram/aligned_buffer.hpp"
#include "engram/io_engine.hpp"

namespace tandem::engram {
namespace {

// Reads one request to at least its needed bytes; returns how many bytes arrived.
Result<std::size_t> read_fully(const ReadRequest& request, std::span<std::byte> buffer) {
  std::size_t done = 0;
  while (done < request.needed) {
    const auto got = request.file->read_at(request.offset + done, buffer.subspan(done, request.bytes - done));
    if (!got) return got.error();
    done += *got;
    // A direct read that stops off its unit stopped at the end of the file; it cannot be continued.
    if (*got == 0 || (done < request.needed && done % request.file->alignment() != 0)) {
      return Error{ErrorCode::io, request.file->name(), fmt::format("short read at {}: {} bytes", request.offset, done),
                   fmt::format("{} bytes", request.needed)};
    }
  }
  return done;
}

class PreadEngine final : public IoEngine {
 public:
  explicit PreadEngine(int threads) {
    // Here and not in the threads, where a lack of memory could not be reported.
    for (int i = 0; i < threads; ++i) buffers_.emplace_back(slot_bytes);
    for (const AlignedBuffer& buffer : buffers_)
      workers_.emplace_back([this, into = buffer.span()](const std::stop_token& stop) { work(stop, into); });
  }

  const char* name() const noexcept override { return "pread"; }

  Result<void> run(std::span<const ReadRequest> requests, const ReadSink& sink) override {
    const std::lock_guard one_batch(batch_mutex_);
    std::unique_lock lock(mutex_);
    batch_ = Batch{requests, &sink, 0, 0, std::nullopt};
    has_work_.notify_all();
    is_done_.wait(lock,
                  [this] { return batch_.running == 0 && (batch_.failed || batch_.next == batch_.requests.size()); });
    auto failed = std::move(batch_.failed);
    batch_ = {};
    if (failed) return *failed;
    return {};
  }

 private:
  struct Batch {
    std::span<const ReadRequest> requests;
    const ReadSink* sink = nullptr;
    std::size_t next = 0;     // first request that no worker took
    std::size_t running = 0;  // requests inside workers
    std::optional<Error> failed;
  };

  bool has_request() const noexcept { return !batch_.failed && batch_.next < batch_.requests.size(); }

  void work(const std::stop_token& stop, std::span<std::byte> buffer) {
    std::unique_lock lock(mutex_);
    while (has_work_.wait(lock, stop, [this] { return has_request(); })) {
      const std::size_t index = batch_.next++;
      const ReadRequest request = batch_.requests[index];
      const ReadSink& sink = *batch_.sink;
      ++batch_.running;
      lock.unlock();
      auto got = read_fully(request, buffer);
      if (got) sink(index, buffer.first(*got));
      lock.lock();
      --batch_.running;
      if (!got && !batch_.failed) batch_.failed = got.error();
      if (batch_.running == 0) is_done_.notify_one();
    }
  }

  std::mutex batch_mutex_;  // held for a whole run()
  std::mutex mutex_;        // guards batch_
  std::condition_variable_any has_work_;
  std::condition_variable is_done_;
  Batch batch_;
  std::vector<AlignedBuffer> buffers_;  // one a worker
  std::vector<std::jthread> workers_;   // last: stops before what it uses is gone
};

}  // namespace

std::unique_ptr<IoEngine> make_pread_engine(int threads) {
  return std::make_unique<PreadEngine>(std::max(threads, 1));
}

}  // namespace tandem::engram
