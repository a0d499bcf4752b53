// The engine for many reads from one thread: io_uring with a fixed set of buffers, registered with the kernel where it
// allows that.
//
// A slot is one buffer and the request that is reading into it. Between batches no slot is busy: run() returns only
// when the kernel has given every buffer back, also after an error.
#include "engram/io_engine.hpp"

#ifdef TANDEM_HAVE_URING

#include <fmt/format.h>
#include <liburing.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <memory>
#include <mutex>
#include <optional>
#include <system_error>
#include <vector>

#include "engram/aligned_buffer.hpp"

namespace tandem::engram {
namespace {

constexpr std::chrono::seconds read_limit{30};  // a drive that is silent for so long is gone
constexpr int depth_max = 512;                  // 32 MiB of buffers; drives saturate far below

std::string reason(int error) {
  return std::generic_category().message(error);
}

class UringEngine final : public IoEngine {
 public:
  explicit UringEngine(int depth)
      : memory_(std::make_unique<AlignedBuffer>(static_cast<std::size_t>(depth) * slot_bytes)),
        slots_(static_cast<std::size_t>(depth)) {}
  UringEngine(const UringEngine&) = delete;
  UringEngine& operator=(const UringEngine&) = delete;
  ~UringEngine() override {
    if (is_open_) {
      const std::lock_guard lock(mapping());
      io_uring_queue_exit(&ring_);
    }
    // Reads that never came back may still write: their memory is given up, not given to somebody else.
    if (broken_) static_cast<void>(memory_.release());
  }

  Result<void> open() {
    const int failed = map_ring();
    if (failed < 0) return Error{ErrorCode::unavailable, "io_uring", reason(-failed), ""};
    is_open_ = true;
    std::vector<iovec> buffers;
    for (std::size_t slot = 0; slot < slots_.size(); ++slot) buffers.push_back({buffer(slot).data(), slot_bytes});
    // Refused where the limit on locked memory is low; plain reads work without.
    has_registered_ = io_uring_register_buffers(&ring_, buffers.data(), static_cast<unsigned>(buffers.size())) == 0;
    return {};
  }

  const char* name() const noexcept override { return "io_uring"; }

  Result<void> run(std::span<const ReadRequest> requests, const ReadSink& sink) override {
    const std::lock_guard lock(mutex_);
    if (broken_) return *broken_;
    Batch batch{requests, sink, 0, std::nullopt};
    std::vector<std::size_t> idle;
    for (std::size_t slot = 0; slot < slots_.size(); ++slot) idle.push_back(slot);
    while (true) {
      while (!batch.failed && !idle.empty() && batch.next < requests.size()) {
        start(idle.back(), batch);
        idle.pop_back();
      }
      if (idle.size() == slots_.size()) break;
      if (auto waited = wait_for_one(); !waited) return *(broken_ = waited.error());
      collect(batch, idle);
    }
    if (batch.failed) return *batch.failed;
    return {};
  }

 private:
  // Held while rings are mapped and unmapped. The kernel needs no lock; ThreadSanitizer, which does not see the
  // library's own system calls, learns by it that a ring which got another one's addresses came after it.
  static std::mutex& mapping() {
    static std::mutex only;
    return only;
  }

  int map_ring() {
    const std::lock_guard lock(mapping());
    return io_uring_queue_init(static_cast<unsigned>(slots_.size()), &ring_, 0);
  }

  struct Batch {
    std::span<const ReadRequest> requests;
    const ReadSink& sink;
    std::size_t next;
    std::optional<Error> failed;
  };
  struct Slot {
    std::size_t request = 0;
    std::size_t done = 0;  // bytes that arrived
  };

  std::span<std::byte> buffer(std::size_t slot) const noexcept {
    return memory_->span().subspan(slot * slot_bytes, slot_bytes);
  }

  void start(std::size_t slot, Batch& batch) {
    slots_[slot] = {batch.next++, 0};
    submit(slot, batch);
  }

  // Queues the rest of a slot's request; the ring has an entry for every slot, so there is always room.
  void submit(std::size_t slot, const Batch& batch) {
    const ReadRequest& request = batch.requests[slots_[slot].request];
    const std::size_t done = slots_[slot].done;
    io_uring_sqe* entry = io_uring_get_sqe(&ring_);
    std::byte* to = buffer(slot).data() + done;
    const auto bytes = static_cast<unsigned>(request.bytes - done);
    if (has_registered_) {
      io_uring_prep_read_fixed(entry, request.file->descriptor(), to, bytes, request.offset + done,
                               static_cast<int>(slot));
    } else {
      io_uring_prep_read(entry, request.file->descriptor(), to, bytes, request.offset + done);
    }
    io_uring_sqe_set_data64(entry, slot);
  }

  Result<void> wait_for_one() {
    for (;;) {
      __kernel_timespec limit{read_limit.count(), 0};
      io_uring_cqe* first = nullptr;
      const int result = io_uring_submit_and_wait_timeout(&ring_, &first, 1, &limit, nullptr);
      if (result == -ETIME) {
        return Error{ErrorCode::io, "io_uring", fmt::format("no read ended within {} s", read_limit.count()), ""};
      }
      if (result >= 0) return {};
      const bool is_passing = result == -EINTR || result == -EAGAIN || result == -EBUSY;
      if (!is_passing) return Error{ErrorCode::io, "io_uring", "submit: " + reason(-result), ""};
      if (io_uring_cq_ready(&ring_) > 0) return {};
    }
  }

  void collect(Batch& batch, std::vector<std::size_t>& idle) {
    io_uring_cqe* entry = nullptr;
    while (io_uring_peek_cqe(&ring_, &entry) == 0) {
      const auto slot = static_cast<std::size_t>(io_uring_cqe_get_data64(entry));
      const int result = entry->res;
      io_uring_cqe_seen(&ring_, entry);
      if (finish(slot, result, batch)) {
        idle.push_back(slot);
      } else {
        submit(slot, batch);
      }
    }
  }

  // Takes one completion; returns false if the request has to go on.
  bool finish(std::size_t slot, int result, Batch& batch) {
    Slot& state = slots_[slot];
    const ReadRequest& request = batch.requests[state.request];
    if (batch.failed) return true;
    if (result == -EINTR || result == -EAGAIN) return false;
    if (result < 0) {
      batch.failed = Error{ErrorCode::io, request.file->name(),
                           fmt::format("read at {}: {}", request.offset, reason(-result)), ""};
      return true;
    }
    state.done += static_cast<std::size_t>(result);
    if (state.done >= request.needed) {
      batch.sink(state.request, buffer(slot).first(state.done));
      return true;
    }
    if (result > 0 && state.done % request.file->alignment() == 0) return false;
    batch.failed = Error{ErrorCode::io, request.file->name(),
                         fmt::format("short read at {}: {} bytes", request.offset, state.done),
                         fmt::format("{} bytes", request.needed)};
    return true;
  }

  std::mutex mutex_;  // held for a whole run()
  std::unique_ptr<AlignedBuffer> memory_;
  std::vector<Slot> slots_;
  io_uring ring_{};
  bool is_open_ = false;
  bool has_registered_ = false;
  std::optional<Error> broken_;  // the ring itself failed: buffers may still be in the kernel's hands
};

}  // namespace

Result<std::unique_ptr<IoEngine>> make_uring_engine(int depth) {
  auto engine = std::make_unique<UringEngine>(std::clamp(depth, 1, depth_max));
  if (auto opened = engine->open(); !opened) return opened.error();
  return std::unique_ptr<IoEngine>(std::move(engine));
}

}  // namespace tandem::engram

#else

namespace tandem::engram {

Result<std::unique_ptr<IoEngine>> make_uring_engine(int) {
  return Error{ErrorCode::unavailable, "io_uring", "this build has no liburing", ""};
}

}  // namespace tandem::engram

#endif
