// Workers take blocks one by one; the calling thread flushes what they finished and reports it.
#include "engram/pack/block_copy.hpp"

#include <algorithm>
#include <condition_variable>
#include <cstring>
#include <mutex>
#include <optional>
#include <thread>

#include "engram/pack/crc32c.hpp"
#include "engram/packed_header.hpp"
#include "engram/range_reader.hpp"

namespace tandem::engram {
namespace {

// Both tensors, open.
struct Tensors {
  std::unique_ptr<InputFile> codes, scales;
};

// One worker's buffers, and the work on one block.
class BlockWorker {
 public:
  BlockWorker(const BlockCopy& copy, const Tensors& tensors, const OutputFile& out)
      : copy_(copy),
        tensors_(tensors),
        out_(out),
        codes_(rows_max() * static_cast<std::size_t>(shape().head_dim)),
        scales_(rows_max() * static_cast<std::size_t>(shape().scales())),
        packed_(rows_max() * shape().bytes()) {}

  // Copies one block and returns its checksum.
  Result<FinishedBlock> run(std::size_t block) {
    const BlockRange range = block_range(copy_.table.info, copy_.block_rows, block);
    const auto rows = static_cast<std::size_t>(range.last - range.first);
    const auto code_bytes = static_cast<std::size_t>(shape().head_dim);
    const auto scale_bytes = static_cast<std::size_t>(shape().scales());
    const auto first = static_cast<std::uint64_t>(copy_.table.info.first_row + range.first);
    const auto codes = codes_.read(*tensors_.codes, copy_.source.codes.offset + first * code_bytes, rows * code_bytes);
    if (!codes) return codes.error();
    const auto scales =
        scales_.read(*tensors_.scales, copy_.source.scales.offset + first * scale_bytes, rows * scale_bytes);
    if (!scales) return scales.error();
    for (std::size_t row = 0; row < rows; ++row) {
      std::byte* to = packed_.data() + row * shape().bytes();
      std::memcpy(to, codes->data() + row * code_bytes, code_bytes);
      std::memcpy(to + code_bytes, scales->data() + row * scale_bytes, scale_bytes);
    }
    const auto packed = std::span<const std::byte>(packed_).first(rows * shape().bytes());
    const std::uint64_t at = packed_header_bytes + static_cast<std::uint64_t>(range.first) * shape().bytes();
    if (auto written = out_.write_at(at, packed); !written) return written.error();
    return FinishedBlock{block, crc32c(packed)};
  }

 private:
  RowShape shape() const noexcept { return copy_.table.info.shape; }
  std::size_t rows_max() const noexcept {
    const TableInfo& info = copy_.table.info;
    return static_cast<std::size_t>(std::min(copy_.block_rows, info.last_row - info.first_row));
  }

  const BlockCopy& copy_;
  const Tensors& tensors_;
  const OutputFile& out_;
  RangeReader codes_, scales_;
  std::vector<std::byte> packed_;
};

class Copying {
 public:
  Copying(const BlockCopy& copy, const Tensors& tensors, const OutputFile& out)
      : copy_(copy), tensors_(tensors), out_(out) {}

  Result<void> run(const BlocksFlushed& flushed) {
    std::vector<std::jthread> workers;
    const auto count = std::min<std::size_t>(static_cast<std::size_t>(std::max(copy_.threads, 1)), copy_.blocks.size());
    running_ = count;
    for (std::size_t i = 0; i < count; ++i) workers.emplace_back([this] { work(); });
    for (std::size_t reported = 0; reported < copy_.blocks.size();) {
      const std::vector<FinishedBlock> group = next_group();
      if (group.empty() && has_failed()) break;
      auto done = group.empty() ? Result<void>() : out_.sync();
      if (done) done = flushed(group);
      if (!done) fail(done.error());
      reported += group.size();
    }
    workers.clear();
    if (failed_) return *failed_;
    return {};
  }

 private:
  bool has_failed() {
    const std::lock_guard lock(mutex_);
    return failed_.has_value() && finished_.empty();
  }

  void fail(const Error& error) {
    const std::lock_guard lock(mutex_);
    if (!failed_) failed_ = error;
    has_room_.notify_all();
  }

  // Waits until a group is worth a flush, half a second at most, or until nothing more will come.
  std::vector<FinishedBlock> next_group() {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, std::chrono::milliseconds(500),
                      [this] { return finished_.size() >= copy_.blocks_per_sync || running_ == 0; });
    const std::size_t count = std::min(finished_.size(), copy_.blocks_per_sync);
    const auto end = finished_.begin() + static_cast<std::ptrdiff_t>(count);
    std::vector<FinishedBlock> group(finished_.begin(), end);
    finished_.erase(finished_.begin(), end);
    has_room_.notify_all();
    return group;
  }

  // The disk sets the pace: without this, everything would be written before the first flush.
  void wait_for_room(std::unique_lock<std::mutex>& lock) {
    has_room_.wait(lock, [this] { return failed_ || finished_.size() < 2 * copy_.blocks_per_sync; });
  }

  void work() {
    BlockWorker worker(copy_, tensors_, out_);
    std::unique_lock lock(mutex_);
    while (true) {
      wait_for_room(lock);
      if (failed_ || next_ >= copy_.blocks.size()) break;
      const std::size_t block = copy_.blocks[next_++];
      lock.unlock();
      auto done = worker.run(block);
      lock.lock();
      if (done) {
        finished_.push_back(*done);
      } else if (!failed_) {
        failed_ = done.error();
        has_room_.notify_all();
      }
      if (finished_.size() >= copy_.blocks_per_sync) changed_.notify_one();
    }
    --running_;
    changed_.notify_one();
  }

  const BlockCopy& copy_;
  const Tensors& tensors_;
  const OutputFile& out_;
  std::mutex mutex_;                  // guards everything below
  std::condition_variable changed_;   // for the calling thread
  std::condition_variable has_room_;  // for the workers
  std::size_t next_ = 0;              // first of copy_.blocks that nobody took
  std::size_t running_ = 0;
  std::vector<FinishedBlock> finished_;  // written, not yet flushed
  std::optional<Error> failed_;
};

}  // namespace

Result<void> copy_blocks(const BlockCopy& copy, Storage& storage, const OutputFile& out, const BlocksFlushed& flushed) {
  auto codes = storage.open(copy.source.codes.file);
  if (!codes) return codes.error();
  auto scales = storage.open(copy.source.scales.file);
  if (!scales) return scales.error();
  const Tensors tensors{std::move(*codes), std::move(*scales)};
  return Copying(copy, tensors, out).run(flushed);
}

}  // namespace tandem::engram
