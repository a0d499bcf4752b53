// A ring, a buffer a slot, and the clock.
#include "engram/bench/disk_limit.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "engram/aligned_buffer.hpp"
#include "engram/input_file.hpp"

#ifdef TANDEM_HAVE_URING
#include <liburing.h>

#include <random>
#include <system_error>
#endif

namespace tandem::engram {

Rate make_rate(std::uint64_t count, double seconds, std::vector<double> durations_us) {
  const auto at_share = [&](double share) {
    const auto place = static_cast<std::size_t>(share * static_cast<double>(durations_us.size() - 1));
    std::nth_element(durations_us.begin(), durations_us.begin() + static_cast<std::ptrdiff_t>(place),
                     durations_us.end());
    return durations_us[place];
  };
  return {static_cast<double>(count) / seconds, at_share(0.5), at_share(0.99)};
}

#ifdef TANDEM_HAVE_URING

namespace {

using Clock = std::chrono::steady_clock;

double microseconds(Clock::duration span) {
  return std::chrono::duration<double, std::micro>(span).count();
}

class ReadLoop {
 public:
  ReadLoop(const RandomReads& reads, const InputFile& file)
      : reads_(reads),
        file_(file),
        memory_(static_cast<std::size_t>(reads.depth) * page_bytes),
        started_(static_cast<std::size_t>(reads.depth)),
        random_(reads.seed),
        page_(reads.first_byte / page_bytes, reads.last_byte / page_bytes - 1) {}
  ReadLoop(const ReadLoop&) = delete;
  ReadLoop& operator=(const ReadLoop&) = delete;
  ~ReadLoop() {
    if (is_open_) io_uring_queue_exit(&ring_);
  }

  Result<Rate> run() {
    if (const int failed = io_uring_queue_init(static_cast<unsigned>(reads_.depth), &ring_, 0); failed < 0) {
      return Error{ErrorCode::unavailable, "io_uring", std::generic_category().message(-failed), ""};
    }
    is_open_ = true;
    const auto begin = Clock::now();
    auto done = reads_.together == 0 ? keep_full(begin + reads_.duration) : in_groups(begin + reads_.duration);
    if (!done) return done.error();
    return make_rate(count_, std::chrono::duration<double>(Clock::now() - begin).count(), std::move(durations_us_));
  }

 private:
  void start(std::size_t slot) {
    io_uring_sqe* entry = io_uring_get_sqe(&ring_);
    io_uring_prep_read(entry, file_.descriptor(), memory_.span().data() + slot * page_bytes,
                       static_cast<unsigned>(page_bytes), page_(random_) * page_bytes);
    io_uring_sqe_set_data64(entry, slot);
    started_[slot] = Clock::now();
    ++in_flight_;
  }

  // Waits for one read at least and takes all that are done into `idle`.
  Result<void> collect(std::vector<std::size_t>& idle, bool is_timed) {
    if (const int result = io_uring_submit_and_wait(&ring_, 1); result < 0 && result != -EINTR) {
      return Error{ErrorCode::io, "io_uring", std::generic_category().message(-result), ""};
    }
    io_uring_cqe* entry = nullptr;
    while (io_uring_peek_cqe(&ring_, &entry) == 0) {
      const auto slot = static_cast<std::size_t>(io_uring_cqe_get_data64(entry));
      const int result = entry->res;
      io_uring_cqe_seen(&ring_, entry);
      --in_flight_;
      if (result != static_cast<int>(page_bytes)) {
        return Error{ErrorCode::io, file_.name(), fmt::format("read: {}", result), fmt::format("{} bytes", page_bytes)};
      }
      ++count_;
      if (is_timed) durations_us_.push_back(microseconds(Clock::now() - started_[slot]));
      idle.push_back(slot);
    }
    return {};
  }

  Result<void> keep_full(Clock::time_point end) {
    std::vector<std::size_t> idle(started_.size());
    for (std::size_t slot = 0; slot < idle.size(); ++slot) idle[slot] = slot;
    do {
      while (!idle.empty() && Clock::now() < end) {
        start(idle.back());
        idle.pop_back();
      }
      if (in_flight_ == 0) break;
      if (auto done = collect(idle, true); !done) return done;
    } while (true);
    return {};
  }

  Result<void> in_groups(Clock::time_point end) {
    std::vector<std::size_t> idle(started_.size());
    for (std::size_t slot = 0; slot < idle.size(); ++slot) idle[slot] = slot;
    while (Clock::now() < end) {
      const auto begin = Clock::now();
      for (int left = reads_.together; left > 0 || in_flight_ > 0;) {
        for (; left > 0 && !idle.empty(); --left) {
          start(idle.back());
          idle.pop_back();
        }
        if (auto done = collect(idle, false); !done) return done;
      }
      durations_us_.push_back(microseconds(Clock::now() - begin));
    }
    return {};
  }

  const RandomReads& reads_;
  const InputFile& file_;
  AlignedBuffer memory_;
  std::vector<Clock::time_point> started_;  // by slot
  std::mt19937_64 random_;
  std::uniform_int_distribution<std::uint64_t> page_;
  io_uring ring_{};
  bool is_open_ = false;
  std::size_t in_flight_ = 0;
  std::uint64_t count_ = 0;
  std::vector<double> durations_us_;
};

}  // namespace

Result<Rate> measure_random_reads(const RandomReads& reads) {
  const bool is_possible = reads.depth > 0 && reads.last_byte >= reads.first_byte + page_bytes && reads.together >= 0 &&
                           reads.duration.count() > 0;
  if (!is_possible)
    return Error{ErrorCode::invalid_argument, reads.file.string(), "reads of nothing", "a page at least"};
  auto file = reads.direct ? open_direct(reads.file) : open_buffered(reads.file);
  if (!file) return file.error();
  return ReadLoop(reads, **file).run();
}

#else

Result<Rate> measure_random_reads(const RandomReads&) {
  return Error{ErrorCode::unavailable, "io_uring", "this build has no liburing", ""};
}

#endif

}  // namespace tandem::engram
