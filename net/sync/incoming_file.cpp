// Data first, then the journal line that speaks of it; the hash of the whole, then the name.
#include "net/sync/incoming_file.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <fstream>
#include <set>
#include <system_error>

#include "engram/sha256.hpp"
#include "gpu/weights_files/file_hash.hpp"

namespace tandem::net::sync {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

// What a crash loses is at most what came since the last flush: so much, or so long ago.
constexpr std::uint64_t bytes_per_flush = std::uint64_t{64} << 20;
constexpr std::chrono::milliseconds flush_every{1'000};

constexpr std::string_view words_before_chunk_bytes = " bytes in chunks of ";

// The first line of a journal: other words, another file.
std::string journal_identity(const IncomingIdentity& identity) {
  return fmt::format("tandem sync 1, {}{}{}, modified {}: {}", identity.shape.file_bytes, words_before_chunk_bytes,
                     identity.shape.chunk_bytes, identity.modified_ns, identity.path);
}

// The identity with the size of chunks that the journal speaks of, if it speaks of this file.
IncomingIdentity with_chunks_of_journal(IncomingIdentity identity, const fs::path& journal) {
  std::string line;
  std::ifstream stream(journal);
  if (!std::getline(stream, line)) return identity;
  const std::size_t at = line.find(words_before_chunk_bytes);
  if (at == std::string::npos) return identity;
  IncomingIdentity earlier = identity;
  const char* digits = line.data() + at + words_before_chunk_bytes.size();
  std::from_chars(digits, line.data() + line.size(), earlier.shape.chunk_bytes);
  return check_chunk_shape(earlier.shape) && journal_identity(earlier) == line ? earlier : identity;
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

// Who writes a part holds its lock.
void remove_unused(const fs::path& part_path, const fs::path& journal) {
  std::error_code ignored;
  if (!fs::exists(part_path, ignored)) {
    fs::remove(journal, ignored);  // its part has got its name
    return;
  }
  const auto part = engram::OutputFile::open(part_path);
  if (!part) return;
  fs::remove(journal, ignored);
  fs::remove(part_path, ignored);
}

Result<void> set_modified(const fs::path& path, std::uint64_t modified_ns) {
  const auto seconds = static_cast<time_t>(modified_ns / 1'000'000'000);
  const timespec times[2] = {{0, UTIME_OMIT}, {seconds, static_cast<long>(modified_ns % 1'000'000'000)}};
  if (::utimensat(AT_FDCWD, path.c_str(), times, 0) == 0) return {};
  return io_fault(path, "set its time");
}

}  // namespace

bool IncomingIdentity::is_same_file(const IncomingIdentity& other) const noexcept {
  const bool is_same_hash = sha256.empty() || other.sha256.empty() || sha256 == other.sha256;
  return path == other.path && shape.file_bytes == other.shape.file_bytes && modified_ns == other.modified_ns &&
         is_same_hash;
}

// A chunk that is being written: finish() waits for its end, however it ends.
class IncomingFile::Writing {
 public:
  explicit Writing(IncomingFile& file) : file_(file) { ++file_.writing_; }  // requires the lock
  Writing(const Writing&) = delete;
  Writing& operator=(const Writing&) = delete;
  ~Writing() {
    const std::lock_guard lock(file_.mutex_);
    --file_.writing_;
    file_.changed_.notify_all();
  }

 private:
  IncomingFile& file_;
};

// A file that is being compared: unless it is gone in the end, chunks and other comparisons may come again.
class IncomingFile::Finishing {
 public:
  explicit Finishing(IncomingFile& file) : file_(file) {}
  Finishing(const Finishing&) = delete;
  Finishing& operator=(const Finishing&) = delete;
  ~Finishing() {
    const std::lock_guard lock(file_.mutex_);
    if (file_.state_ == State::finishing) file_.state_ = State::open;
    file_.changed_.notify_all();
  }

 private:
  IncomingFile& file_;
};

IncomingFile::IncomingFile(IncomingIdentity identity, Places places)
    : identity_(std::move(identity)), places_(std::move(places)), chunks_(identity_.shape) {}

IncomingFile::Places IncomingFile::places_of(const fs::path& folder, const std::string& path) {
  const std::string name = engram::sha256_hex(std::as_bytes(std::span(path))).substr(0, 32);
  const fs::path parts = folder / parts_folder_name;
  return {parts / (name + ".part"), parts / (name + ".journal"), folder / path};
}

std::string IncomingFile::journal_words() const {
  return journal_identity(identity_);
}

// A journal without its data, or with another file's, is worth nothing.
IncomingFile::Finished IncomingFile::read_finished() const {
  std::error_code absent;
  const std::uint64_t bytes = fs::file_size(places_.part, absent);
  if (absent || bytes != identity_.shape.file_bytes) return {};
  return engram::PackJournal::read(places_.journal, journal_words(), identity_.shape.count());
}

Result<std::shared_ptr<IncomingFile>> IncomingFile::find(const fs::path& folder, IncomingIdentity identity) {
  if (auto ok = check_chunk_shape(identity.shape); !ok) return ok.error();
  Places places = places_of(folder, identity.path);
  identity = with_chunks_of_journal(std::move(identity), places.journal);
  const std::shared_ptr<IncomingFile> file =
      std::unique_ptr<IncomingFile>(new IncomingFile(std::move(identity), std::move(places)));
  file->resumed_ = file->read_finished();
  for (const auto& [index, checksum] : file->resumed_) file->chunks_.add(index);
  return file;
}

void IncomingFile::remove_part(const fs::path& folder, const std::string& path) {
  const Places places = places_of(folder, path);
  remove_unused(places.part, places.journal);
}

void IncomingFile::remove_parts(const fs::path& folder) {
  const fs::path parts = folder / parts_folder_name;
  std::set<fs::path> unfinished;
  std::error_code failed;
  for (fs::directory_iterator at(parts, failed), end; !failed && at != end; at.increment(failed)) {
    const fs::path extension = at->path().extension();
    if (extension == ".part" || extension == ".journal")
      unfinished.insert(fs::path(at->path()).replace_extension(".part"));
  }
  for (const fs::path& part : unfinished) remove_unused(part, fs::path(part).replace_extension(".journal"));
  fs::remove(parts, failed);
}

ChunkSet IncomingFile::chunks() const {
  const std::lock_guard lock(mutex_);
  return chunks_;
}

bool IncomingFile::is_gone() const {
  const std::lock_guard lock(mutex_);
  return state_ == State::gone;
}

Error IncomingFile::gone_error(std::string found) const {
  return {ErrorCode::unavailable, identity_.path, std::move(found), "to be offered again"};
}

std::uint64_t IncomingFile::bytes_to_allocate() const {
  if (is_gone()) return 0;
  struct stat status {};
  if (::stat(places_.part.c_str(), &status) != 0) return identity_.shape.file_bytes;
  // st_blocks counts 512 bytes whatever the file system's block is.
  const std::uint64_t allocated = static_cast<std::uint64_t>(status.st_blocks) * 512;
  return identity_.shape.file_bytes - std::min(allocated, identity_.shape.file_bytes);
}

Result<void> IncomingFile::allocate() {
  const std::lock_guard lock(mutex_);
  if (state_ != State::closed) return {};
  if (auto opened = open_part(); !opened) return opened;
  part_.reset();
  state_ = State::closed;
  return {};
}

// Requires the lock. Between offer and first chunk nobody held the part: if another process went on with it meanwhile,
// the sender knows too much or too little of it.
Result<void> IncomingFile::open_part() {
  if (state_ != State::closed) return {};
  if (auto made = make_folder(places_.part.parent_path()); !made) return made;
  if (auto made = make_folder(places_.final_name.parent_path()); !made) return made;
  auto part = engram::OutputFile::open(places_.part);
  if (!part) return part.error();
  if (read_finished() != resumed_) {
    state_ = State::gone;
    return gone_error("a part that changed since it was offered");
  }
  // Another file's journal would speak of bytes that are about to be overwritten.
  std::error_code ignored;
  if (resumed_.empty()) fs::remove(places_.journal, ignored);
  if (auto sized = part->resize(identity_.shape.file_bytes); !sized) return sized;
  part_ = std::make_shared<engram::OutputFile>(std::move(*part));
  flushed_at_ = Clock::now();
  state_ = State::open;
  return {};
}

Result<void> IncomingFile::write(const Chunk& chunk) {
  const ChunkShape& shape = identity_.shape;
  if (chunk.index >= shape.count() || chunk.data.size() != shape.bytes(chunk.index)) {
    return Error{ErrorCode::out_of_range, identity_.path,
                 fmt::format("chunk {} of {} bytes", chunk.index, chunk.data.size()),
                 fmt::format("one of {} chunks of {} bytes", shape.count(), shape.chunk_bytes)};
  }
  std::shared_ptr<engram::OutputFile> part;
  std::optional<Writing> writing;
  {
    const std::lock_guard lock(mutex_);
    if (state_ == State::gone) return gone_error("a chunk of a file that is finished or was thrown away");
    if (chunks_.has(chunk.index)) return {};
    if (auto opened = open_part(); !opened) return opened;
    part = part_;
    writing.emplace(*this);
  }
  if (auto written = part->write_at(shape.offset(chunk.index), chunk.data); !written) return written;
  bool is_due = false;
  {
    const std::lock_guard lock(mutex_);
    if (!chunks_.has(chunk.index)) {
      chunks_.add(chunk.index);
      unflushed_.push_back({chunk.index, chunk.checksum});
      unflushed_bytes_ += chunk.data.size();
    }
    is_due = unflushed_bytes_ >= bytes_per_flush || Clock::now() - flushed_at_ >= flush_every;
  }
  writing.reset();
  return is_due ? flush() : Result<void>{};
}

// Chunks go on arriving meanwhile; they are the next flush's.
Result<void> IncomingFile::flush() {
  const std::lock_guard one_at_a_time(flush_mutex_);
  return flush_journal();
}

// Requires the flush mutex.
Result<void> IncomingFile::flush_journal() {
  std::shared_ptr<engram::OutputFile> part;
  std::vector<engram::FinishedBlock> batch;
  {
    const std::lock_guard lock(mutex_);
    if (unflushed_.empty() || !part_) return {};
    part = part_;
    batch.swap(unflushed_);
    unflushed_bytes_ = 0;
    flushed_at_ = Clock::now();
  }
  const auto flushed = [&]() -> Result<void> {
    if (auto synced = part->sync(); !synced) return synced;
    if (!journal_) {
      auto journal = engram::PackJournal::create(places_.journal, journal_words(), resumed_);
      if (!journal) return journal.error();
      journal_.emplace(std::move(*journal));
    }
    return journal_->append(batch);
  }();
  if (flushed) return {};
  const std::lock_guard lock(mutex_);
  unflushed_.insert(unflushed_.end(), batch.begin(), batch.end());
  return flushed;
}

Result<gpu::FileReceipt> IncomingFile::finish(const std::string& sha256, const IsWorking& is_working) {
  const Error stopped{ErrorCode::cancelled, identity_.path, "stopped while the file was waited for", ""};
  std::optional<Finishing> finishing;  // ends after the lock
  {
    std::unique_lock lock(mutex_);
    if (!wait_until(lock, is_working, [this] { return state_ != State::finishing; })) return stopped;
    if (state_ == State::gone && receipt_ && receipt_->sha256 == sha256) return *receipt_;
    if (auto begun = begin_finishing(); !begun) return begun.error();
    finishing.emplace(*this);
    if (!wait_until(lock, is_working, [this] { return writing_ == 0; })) return stopped;
  }
  return compare(sha256, is_working);
}

// Requires the lock, which is let go of meanwhile. False if the caller is told to stop.
template <class IsSo>
bool IncomingFile::wait_until(std::unique_lock<std::mutex>& lock, const IsWorking& is_working, IsSo is_so) {
  while (!changed_.wait_for(lock, working_every, is_so)) {
    lock.unlock();
    const bool goes_on = !is_working || is_working(0);
    lock.lock();
    if (!goes_on) return false;
  }
  return true;
}

// Requires the lock. From here on no chunk begins to be written.
Result<void> IncomingFile::begin_finishing() {
  if (state_ == State::gone) return gone_error("a file that is finished or was thrown away");
  if (!chunks_.is_complete())
    return gone_error(fmt::format("{} of {} chunks", chunks_.count(), chunks_.shape().count()));
  if (auto opened = open_part(); !opened) return opened;
  state_ = State::finishing;
  return {};
}

// Nobody writes: the state forbids it.
Result<gpu::FileReceipt> IncomingFile::compare(const std::string& sha256, const IsWorking& is_working) {
  {
    const std::lock_guard one_at_a_time(flush_mutex_);
    // A file that came within one flush needs no journal; what is flushed is read from the disk and not from memory.
    if (auto flushed = journal_ ? flush_journal() : part_->sync(); !flushed) return flushed.error();
  }
  const auto hashed = gpu::hash_file(places_.part, is_working);
  if (!hashed) return hashed.error();
  if (hashed->sha256 == sha256) return publish(sha256);
  std::error_code ignored;
  fs::remove(places_.part, ignored);
  let_go({});
  return Error{ErrorCode::mismatch, identity_.path, fmt::format("a file with sha256 {:.16}...", hashed->sha256),
               fmt::format("{:.16}..., as its sender says", sha256)};
}

Result<gpu::FileReceipt> IncomingFile::publish(const std::string& sha256) {
  if (auto timed = set_modified(places_.part, identity_.modified_ns); !timed) return timed.error();
  if (auto synced = part_->sync(); !synced) return synced.error();
  if (::rename(places_.part.c_str(), places_.final_name.c_str()) != 0) return io_fault(places_.final_name, "rename to");
  const auto synced = engram::sync_folder_of(places_.final_name);
  const auto state = gpu::file_state(places_.final_name);
  if (!synced || !state) {
    let_go({});
    return synced ? state.error() : synced.error();
  }
  const gpu::FileReceipt receipt{*state, sha256};
  let_go(receipt);
  return receipt;
}

// The part was renamed or removed: its name belongs to nobody.
void IncomingFile::let_go(std::optional<gpu::FileReceipt> receipt) {
  const std::lock_guard one_at_a_time(flush_mutex_);
  const std::lock_guard lock(mutex_);
  std::error_code ignored;
  journal_.reset();
  fs::remove(places_.journal, ignored);
  part_.reset();
  receipt_ = std::move(receipt);
  state_ = State::gone;
}

}  // namespace tandem::net::sync
