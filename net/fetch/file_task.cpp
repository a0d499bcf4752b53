// Bookkeeping of pieces: which are pending, which are still worth something.
#include "net/fetch/file_task.hpp"

namespace tandem::net::fetch {

void FileTask::lay_out() {
  pending_.clear();
  received = 0;
  version = part->version();
  has_version = !part->finished().empty();
  has_parts = has_parts || has_version;
  if (is_whole) {
    pending_.push_back(0);
  } else {
    for (std::size_t segment = 0; segment < part->segments(); ++segment)
      if (!part->finished().contains(segment)) pending_.push_back(segment);
    received = part->bytes_finished();
  }
  left_ = pending_.size();
}

Piece FileTask::take_pending() {
  const std::size_t segment = pending_.front();
  pending_.pop_front();
  const auto extent = is_whole ? PartFile::Extent{0, part->bytes()} : part->segment(segment);
  return {segment, extent.begin, extent.begin, extent.end, extent.begin, generation_};
}

void FileTask::take_back(Piece& piece, std::uint64_t at) {
  if (is_current(piece)) received -= piece.at - at;
  piece.at = at;
}

void FileTask::finish(const Piece& piece) {
  if (is_current(piece)) --left_;
}

void FileTask::invalidate() {
  ++generation_;
  pending_.clear();
}

}  // namespace tandem::net::fetch
