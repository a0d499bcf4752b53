// Data first, then the journal line that speaks of it; the hash of the whole, then the name.
#include "net/sync/incoming_file.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <system_error>

#include "engram/sha256.hpp"
#include "gpu/weights_files/file_hash.hpp"

namespace tandem::net::sync {
namespace {

namespace fs = std::filesystem;

// What a crash loses is at most what came since the last flush: so much, or so long ago.
constexpr std::uint64_t bytes_per_flush = std::uint64_t{64} << 20;
constexpr std::chrono::milliseconds flush_every{1'000};

// The first line of a journal: other words, another file.
std::string journal_identity(const IncomingIdentity& identity) {
  return fmt::format("tandem sync 1, {} bytes in chunks of {}, modified {}: {}", identity.shape.file_bytes,
                     identity.shape.chunk_bytes, identity.modified_ns, identity.path);
}

Error io_fault(const fs::path& path, const char* call) {
  return {ErrorCode::io, path.string(), fmt::format("{}: {}", call, std::generic_category().message(errno)), ""};
}

Result<void> make_folder(const fs::path& folder) {
  std::error_code failed;
  fs::create_directories(folder, failed);
  if (!failed) return {};
  return Error{ErrorCode::io, folder.string(), failed.message(), "a folder that can be made"};
}

Result<void> set_modified(const fs::path& path, std::uint64_t modified_ns) {
  const auto seconds = static_cast<time_t>(modified_ns / 1'000'000'000);
  const timespec times[2] = {{0, UTIME_OMIT}, {seconds, static_cast<long>(modified_ns % 1'000'000'000)}};
  if (::utimensat(AT_FDCWD, path.c_str(), times, 0) == 0) return {};
  return io_fault(path, "set its time");
}

}  // namespace

IncomingFile::IncomingFile(IncomingIdentity identity, Places places)
    : identity_(std::move(identity)), places_(std::move(places)), chunks_(identity_.shape) {}

IncomingFile::Places IncomingFile::places_of(const fs::path& folder, const std::string& path) {
  const std::string name = engram::sha256_hex(std::as_bytes(std::span(path))).substr(0, 32);
  const fs::path parts = folder / parts_folder_name;
  return {parts / (name + ".part"), parts / (name + ".journal"), folder / path};
}

Result<std::unique_ptr<IncomingFile>> IncomingFile::open(const fs::path& folder, IncomingIdentity identity) {
  if (auto ok = check_chunk_shape(identity.shape); !ok) return ok.error();
  const Places places = places_of(folder, identity.path);
  if (auto made = make_folder(places.part.parent_path()); !made) return made.error();
  if (auto made = make_folder(places.final_name.parent_path()); !made) return made.error();
  auto file = engram::OutputFile::open(places.part);
  if (!file) return file.error();
  const auto extent = file->extent();
  if (!extent) return extent.error();
  const std::string words = journal_identity(identity);
  auto finished = engram::PackJournal::read(places.journal, words, identity.shape.count());
  // A journal without its data, or with another file's, is worth nothing.
  if (extent->bytes != identity.shape.file_bytes) finished.clear();
  auto journal = engram::PackJournal::create(places.journal, words, finished);
  if (!journal) return journal.error();
  auto incoming = std::unique_ptr<IncomingFile>(new IncomingFile(std::move(identity), places));
  incoming->file_ = std::make_shared<engram::OutputFile>(std::move(*file));
  incoming->journal_.emplace(std::move(*journal));
  incoming->is_allocated_ = extent->bytes == incoming->identity_.shape.file_bytes;
  for (const auto& [index, checksum] : finished) incoming->chunks_.add(index);
  return incoming;
}

ChunkSet IncomingFile::chunks() const {
  const std::lock_guard lock(mutex_);
  return chunks_;
}

Result<std::uint64_t> IncomingFile::reserved_bytes() const {
  const std::lock_guard lock(mutex_);
  if (!file_) return std::uint64_t{0};
  const auto extent = file_->extent();
  if (!extent) return extent.error();
  return extent->allocated - std::min(extent->allocated, chunks_.bytes());
}

Result<void> IncomingFile::allocate() {
  const std::lock_guard lock(mutex_);
  if (is_allocated_ || !file_) return {};
  auto sized = file_->resize(identity_.shape.file_bytes);
  is_allocated_ = sized.has_value();
  return sized;
}

Result<void> IncomingFile::write(const Chunk& chunk) {
  const ChunkShape& shape = identity_.shape;
  if (chunk.index >= shape.count() || chunk.data.size() != shape.bytes(chunk.index)) {
    return Error{ErrorCode::out_of_range, identity_.path,
                 fmt::format("chunk {} of {} bytes", chunk.index, chunk.data.size()),
                 fmt::format("one of {} chunks of {} bytes", shape.count(), shape.chunk_bytes)};
  }
  const auto file = [&] {
    const std::lock_guard lock(mutex_);
    return file_;
  }();
  if (!file) return Error{ErrorCode::invalid_argument, identity_.path, "a chunk of a finished file", "none"};
  if (auto allocated = allocate(); !allocated) return allocated;
  if (auto written = file->write_at(shape.offset(chunk.index), chunk.data); !written) return written;
  const std::lock_guard lock(mutex_);
  if (!file_) return Error{ErrorCode::invalid_argument, identity_.path, "a chunk while the file was finished", "none"};
  chunks_.add(chunk.index);
  unflushed_.push_back({chunk.index, chunk.checksum});
  unflushed_bytes_ += chunk.data.size();
  const bool is_due =
      unflushed_bytes_ >= bytes_per_flush || std::chrono::steady_clock::now() - flushed_at_ >= flush_every;
  return is_due ? flush_locked() : Result<void>{};
}

Result<void> IncomingFile::flush() {
  const std::lock_guard lock(mutex_);
  return flush_locked();
}

Result<void> IncomingFile::flush_locked() {
  if (unflushed_.empty() || !file_) return {};
  if (auto synced = file_->sync(); !synced) return synced;
  if (auto noted = journal_->append(unflushed_); !noted) return noted;
  unflushed_.clear();
  unflushed_bytes_ = 0;
  flushed_at_ = std::chrono::steady_clock::now();
  return {};
}

Result<gpu::FileReceipt> IncomingFile::finish(const std::string& sha256,
                                              const std::function<bool(std::uint64_t)>& is_working) {
  const std::lock_guard lock(mutex_);
  if (!file_ || !chunks_.is_complete()) {
    return Error{ErrorCode::invalid_argument, identity_.path,
                 fmt::format("{} of {} chunks", chunks_.count(), identity_.shape.count()), "all of them"};
  }
  // An empty file has no chunk that would have made room for it, or cut an older part to size.
  if (!is_allocated_) {
    if (auto sized = file_->resize(identity_.shape.file_bytes); !sized) return sized.error();
  }
  if (auto flushed = flush_locked(); !flushed) return flushed.error();
  const auto hashed = gpu::hash_file(places_.part, is_working);
  if (!hashed) return hashed.error();
  if (hashed->sha256 != sha256) {
    discard();
    return Error{ErrorCode::mismatch, identity_.path, fmt::format("a file with sha256 {:.16}...", hashed->sha256),
                 fmt::format("{:.16}..., as its sender says", sha256)};
  }
  return publish(sha256);
}

Result<gpu::FileReceipt> IncomingFile::publish(const std::string& sha256) {
  if (auto timed = set_modified(places_.part, identity_.modified_ns); !timed) return timed.error();
  if (auto synced = file_->sync(); !synced) return synced.error();
  if (::rename(places_.part.c_str(), places_.final_name.c_str()) != 0) return io_fault(places_.final_name, "rename to");
  if (auto synced = engram::sync_folder_of(places_.final_name); !synced) return synced.error();
  discard();
  const auto state = gpu::file_state(places_.final_name);
  if (!state) return state.error();
  return gpu::FileReceipt{*state, sha256};
}

void IncomingFile::discard() {
  file_.reset();
  journal_.reset();
  std::error_code ignored;
  fs::remove(places_.part, ignored);
  fs::remove(places_.journal, ignored);
}

}  // namespace tandem::net::sync
