// States of files and two queues.
#include "net/sync/copy_files.hpp"

#include <algorithm>

namespace tandem::net::sync {

Result<OfferOutcome> judge_offer(const CopyFile& file, const Message& have) {
  if (have.state == "same" && !file.sha256.empty() && have.sha256 == file.sha256) return OfferOutcome::same;
  if (have.state == "exists" && !have.sha256.empty() && file.sha256.empty()) return OfferOutcome::compare_hashes;
  if (have.state == "new" || have.state == "part") {
    if (auto ok = check_chunk_shape({file.bytes, have.chunk_bytes}); !ok) return ok.error();
    return OfferOutcome::send;
  }
  return Error{ErrorCode::bad_format, file.path, "an answer with state " + have.state, "same, exists, part or new"};
}

bool CopyFiles::is_done() const noexcept {
  return std::all_of(files_.begin(), files_.end(), [](const CopyFile& f) { return f.state == CopyState::done; });
}

std::uint64_t CopyFiles::bytes_missing() const noexcept {
  std::uint64_t bytes = 0;
  for (const CopyFile& file : files_) bytes += file.state == CopyState::done ? 0 : file.bytes - file.bytes_there;
  return bytes;
}

void CopyFiles::begin_round() {
  chunks_.clear();
  complete_.clear();
  for (CopyFile& file : files_) {
    if (file.state == CopyState::done) continue;
    file.state = CopyState::waiting;
    file.bytes_there = 0;
  }
}

void CopyFiles::note_same(std::size_t file) {
  files_[file].state = CopyState::done;
  files_[file].was_same = true;
}

void CopyFiles::note_there(std::size_t file, const ChunkSet& there) {
  files_[file].state = CopyState::sending;
  files_[file].shape = there.shape();
  files_[file].bytes_there = there.bytes();
  missing_[file] = there.shape().count() - there.count();
  for (std::uint64_t chunk = 0; chunk < there.shape().count(); ++chunk) {
    if (!there.has(chunk)) chunks_.push_back({file, chunk});
  }
  note_if_complete(file);
}

std::optional<CopyFiles::Work> CopyFiles::next() {
  if (!complete_.empty()) {
    const Work work{complete_.front(), std::nullopt};
    complete_.pop_front();
    return work;
  }
  if (chunks_.empty()) return std::nullopt;
  const Work work = chunks_.front();
  chunks_.pop_front();
  return work;
}

void CopyFiles::note_stored(const Work& work) {
  CopyFile& file = files_[work.file];
  file.bytes_there += file.shape.bytes(*work.chunk);
  --missing_[work.file];
  note_if_complete(work.file);
}

void CopyFiles::note_finished(std::size_t file) {
  files_[file].state = CopyState::done;
}

void CopyFiles::note_if_complete(std::size_t file) {
  if (missing_[file] > 0) return;
  files_[file].state = CopyState::complete;
  complete_.push_back(file);
}

}  // namespace tandem::net::sync
