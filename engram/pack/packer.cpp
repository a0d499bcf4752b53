// The steps in their order; each leaves the disk in a state from which the next call can go on.
#include "engram/pack/packer.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <system_error>

#include "engram/pack/block_check.hpp"
#include "engram/pack/block_copy.hpp"
#include "engram/pack/fingerprint.hpp"
#include "engram/packed_header.hpp"

namespace tandem::engram {
namespace {

using Clock = std::chrono::steady_clock;

std::filesystem::path part_path(const std::filesystem::path& out) {
  return out.string() + ".part";
}
std::filesystem::path journal_path(const std::filesystem::path& out) {
  return out.string() + ".part.journal";
}

Result<void> remove_file(const std::filesystem::path& path) {
  std::error_code failed;
  std::filesystem::remove(path, failed);
  if (failed) return Error{ErrorCode::io, path.string(), "remove: " + failed.message(), ""};
  return sync_folder_of(path);
}

// Turns bytes done into a rate and the time that is left.
class Meter {
 public:
  Meter(PackProgress::Phase phase, std::uint64_t total, std::uint64_t before)
      : progress_{phase, before, total, 0, 0}, before_(before) {}

  const PackProgress& at(std::uint64_t done) {
    const double seconds = std::chrono::duration<double>(Clock::now() - started_).count();
    progress_.bytes_done = done;
    progress_.bytes_per_s = seconds > 0 ? static_cast<double>(done - before_) / seconds : 0;
    const auto left = static_cast<double>(progress_.bytes_total - std::min(done, progress_.bytes_total));
    progress_.eta_s = progress_.bytes_per_s > 0 ? left / progress_.bytes_per_s : 0;
    return progress_;
  }

 private:
  PackProgress progress_;
  std::uint64_t before_;
  Clock::time_point started_ = Clock::now();
};

class Packing {
 public:
  Packing(const PackJob& job, const PackOptions& options, std::shared_ptr<Storage> storage)
      : job_(job), options_(options), storage_(std::move(storage)) {
    outcome_.bytes = packed_file_bytes(job.table.info);
    receipt_.table = job.table;
    receipt_.block_rows = options.block_rows;
  }

  Result<PackOutcome> run() {
    auto source = open_shard_store(job_.source, storage_);
    if (!source) return source.error();
    auto print = fingerprint(**source);
    if (!print) return print.error();
    receipt_.source = std::move(*print);
    if (!options_.is_forced && is_packed()) {
      outcome_.was_there = true;
      return outcome_;
    }
    if (auto done = write_part(); !done) return done.error();
    if (auto done = verify_part(); !done) return done.error();
    if (auto done = publish(); !done) return done.error();
    outcome_.seconds = std::chrono::duration<double>(Clock::now() - started_).count();
    return outcome_;
  }

 private:
  void say(const std::string& text) const {
    if (options_.announce) options_.announce(text);
  }

  // The file under the final name has the header, the size and a receipt of this source.
  bool is_packed() const {
    if (!open_packed_store(job_.out, job_.table, storage_)) return false;
    const auto receipt = read_receipt(job_.out);
    return receipt && receipt->source == receipt_.source;
  }

  // Says whose blocks a journal lists: everything that would make them useless if it changed.
  std::string identity() const {
    const TableInfo& info = job_.table.info;
    return fmt::format("tandem-pack 1: layer {} rows {} to {} of {} x {}, blocks of {}, source {}", job_.table.layer,
                       info.first_row, info.last_row, info.rows, info.shape.head_dim, receipt_.block_rows,
                       receipt_.source);
  }

  // Copies what is missing and puts the header in front.
  Result<void> write_part() {
    auto part = OutputFile::open(part_path(job_.out));
    if (!part) return part.error();
    const auto extent = part->extent();
    if (!extent) return extent.error();
    const std::size_t blocks = block_count(job_.table.info, receipt_.block_rows);
    auto finished = PackJournal::read(journal_path(job_.out), identity(), blocks);
    if (extent->bytes != outcome_.bytes) finished.clear();
    if (finished.empty()) {
      if (auto started = start_over(*part); !started) return started;
    } else {
      say(fmt::format("{}: going on behind {} of {} blocks", job_.out.string(), finished.size(), blocks));
    }
    receipt_.checksums.assign(blocks, 0);
    for (const auto& [block, checksum] : finished) receipt_.checksums[block] = checksum;
    if (auto copied = copy_missing(*part, finished); !copied) return copied;
    if (auto written = part->write_at(0, encode_packed_header(job_.table)); !written) return written;
    return part->sync();
  }

  // The journal goes first: one that outlived its data would pass off empty blocks as finished.
  Result<void> start_over(OutputFile& part) const {
    if (auto removed = remove_file(journal_path(job_.out)); !removed) return removed;
    if (auto emptied = part.resize(0); !emptied) return emptied;
    if (auto checked = check_free_space(job_.out.parent_path(), outcome_.bytes); !checked) return checked;
    return part.resize(outcome_.bytes);
  }

  Result<void> copy_missing(const OutputFile& part, const std::map<std::size_t, std::uint32_t>& finished) {
    BlockCopy copy{job_.source, job_.table,       receipt_.block_rows,
                   {},          options_.threads, std::max<std::size_t>(options_.blocks_per_sync, 1)};
    for (std::size_t block = 0; block < receipt_.checksums.size(); ++block) {
      if (finished.contains(block)) {
        outcome_.bytes_resumed += block_bytes(block);
      } else {
        copy.blocks.push_back(block);
      }
    }
    auto journal = PackJournal::create(journal_path(job_.out), identity(), finished);
    if (!journal) return journal.error();
    std::uint64_t done = outcome_.bytes_resumed;
    Meter meter(PackProgress::Phase::copying, outcome_.bytes - packed_header_bytes, done);
    const auto flushed = [&](const std::vector<FinishedBlock>& blocks) -> Result<void> {
      for (const FinishedBlock& block : blocks) {
        receipt_.checksums[block.block] = block.checksum;
        done += block_bytes(block.block);
      }
      if (!blocks.empty()) {
        if (auto noted = journal->append(blocks); !noted) return noted;
      }
      return report(meter.at(done));
    };
    return copy_blocks(copy, *storage_, part, flushed);
  }

  std::uint64_t block_bytes(std::size_t block) const noexcept {
    const BlockRange range = block_range(job_.table.info, receipt_.block_rows, block);
    return static_cast<std::uint64_t>(range.last - range.first) * job_.table.info.shape.bytes();
  }

  Result<void> report(const PackProgress& progress) const {
    if (!options_.progress || options_.progress(progress)) return {};
    return Error{ErrorCode::cancelled, job_.out.string(), "packing was stopped; the next call goes on from here", ""};
  }

  // Reads everything back, from the disk where direct reads work.
  Result<void> verify_part() const {
    const auto path = part_path(job_.out);
    const auto file = storage_->open(path);
    if (!file) return file.error();
    Meter meter(PackProgress::Phase::verifying, outcome_.bytes - packed_header_bytes, 0);
    std::uint64_t done = 0;
    auto reported = Clock::now();
    const auto progress = [&](std::size_t blocks) {
      done += block_bytes(blocks - 1);
      const bool is_due =
          blocks == receipt_.checksums.size() || Clock::now() - reported > std::chrono::milliseconds(500);
      if (!is_due) return true;
      reported = Clock::now();
      return report(meter.at(done)).has_value();
    };
    auto checked = check_blocks(**file, receipt_, all_blocks(receipt_), progress);
    if (checked || checked.error().code != ErrorCode::corrupt) return checked;
    // What is on the disk cannot be trusted: the next call starts over.
    if (auto removed = remove_file(journal_path(job_.out)); !removed) return removed;
    return checked;
  }

  // An older file goes before the new receipt comes: file and receipt never contradict each other.
  Result<void> publish() {
    const auto part = part_path(job_.out);
    const auto modified = modified_ns(part);
    if (!modified) return modified.error();
    receipt_.modified_ns = *modified;
    if (auto removed = remove_file(job_.out); !removed) return removed;
    if (auto written = write_receipt(job_.out, receipt_); !written) return written;
    std::error_code failed;
    std::filesystem::rename(part, job_.out, failed);
    if (failed) return Error{ErrorCode::io, job_.out.string(), "rename to: " + failed.message(), ""};
    if (auto synced = sync_folder_of(job_.out); !synced) return synced;
    return remove_file(journal_path(job_.out));
  }

  const PackJob& job_;
  const PackOptions& options_;
  std::shared_ptr<Storage> storage_;
  PackedReceipt receipt_;
  PackOutcome outcome_;
  Clock::time_point started_ = Clock::now();
};

}  // namespace

Result<PackOutcome> pack_table(const PackJob& job, const PackOptions& options,
                               const std::shared_ptr<Storage>& storage) {
  if (options.block_rows < 1 || job.table.info.shape != job.source.shape || job.table.info.rows != job.source.rows) {
    return Error{ErrorCode::invalid_argument, job.out.string(), "a packed table of another shape than its source", ""};
  }
  return Packing(job, options, storage).run();
}

std::uint64_t bytes_missing(const PackJob& job) {
  const std::uint64_t bytes = packed_file_bytes(job.table.info);
  std::error_code absent;
  if (std::filesystem::file_size(job.out, absent) == bytes && !absent) return 0;
  // A part of the full length has its space already, unless the file system could not reserve it.
  if (std::filesystem::file_size(part_path(job.out), absent) == bytes && !absent) return 0;
  return bytes;
}

Result<void> check_free_space(const std::filesystem::path& folder, std::uint64_t bytes) {
  std::error_code failed;
  const auto space = std::filesystem::space(folder.empty() ? std::filesystem::path(".") : folder, failed);
  if (failed) return Error{ErrorCode::io, folder.string(), "free space: " + failed.message(), ""};
  const std::uint64_t wanted = bytes + bytes / 10;
  if (space.available >= wanted) return {};
  const bool is_small = wanted < (std::uint64_t{1} << 30);
  const auto shown = [&](std::uint64_t size) {
    return fmt::format("{:.1f} {}", static_cast<double>(size) / (is_small ? 1 << 20 : 1 << 30),
                       is_small ? "MiB" : "GiB");
  };
  return Error{ErrorCode::resource, folder.string(), shown(space.available) + " free",
               shown(wanted) + ", what is to be written and a tenth more"};
}

}  // namespace tandem::engram
