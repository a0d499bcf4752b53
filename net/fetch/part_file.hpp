// PartFile: a file under construction beside its final name: received in segments, in any order, over several runs.
//
//   model-00007.safetensors                        there once it is whole and right, not before
//   .tandem-model-00007.safetensors.part           the bytes so far
//   .tandem-model-00007.safetensors.part.journal   which segments of them are on the disk, and of which version
//
// A segment is noted after it was flushed, so the journal is never ahead of the bytes: a kill or a power cut costs the
// segments in flight and no other. A file keeps the segments that it was begun with. Both names begin with ".tandem",
// which no manifest may list.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <set>
#include <span>
#include <string>

#include "engram/pack/output_file.hpp"

namespace tandem::net::fetch {

// Where the bytes of a file are gathered until it is whole.
std::filesystem::path part_path(const std::filesystem::path& final_path);

// Removes what was gathered of a file that is whole, or that nobody wants any more. Errors: io.
Result<void> remove_part(const std::filesystem::path& final_path);

struct PartPlan {
  std::filesystem::path final_path;
  std::uint64_t bytes = 0;
  std::uint64_t segment_bytes = 1;  // of a file that is begun now
  std::string identity;             // whose bytes these are: whatever would make them useless if it changed; one line
};

class PartFile {
 public:
  // Opens what an earlier run left, or starts anew, with all the space taken at once where the file system can. Errors:
  // io, resource (disk full), unavailable (another process writes it).
  static Result<PartFile> open(const PartPlan& plan);

  std::uint64_t bytes() const noexcept { return plan_.bytes; }
  // As large as the run that began the file wanted them.
  std::uint64_t segment_bytes() const noexcept { return plan_.segment_bytes; }
  std::size_t segments() const noexcept;
  struct Extent {
    std::uint64_t begin = 0, end = 0;
  };
  Extent segment(std::size_t index) const noexcept;
  const std::set<std::size_t>& finished() const noexcept { return finished_; }
  std::uint64_t bytes_finished() const noexcept;
  // The version that the finished segments are of; empty = not known.
  const std::string& version() const noexcept { return version_; }

  // Says of which version all segments will be; once, before the first is noted. Errors: io, resource.
  Result<void> begin(const std::string& version);
  // Thread-safe. Errors: io, resource.
  Result<void> write_at(std::uint64_t offset, std::span<const std::byte> bytes) const {
    return file_.write_at(offset, bytes);
  }
  // Flushes the file and notes a segment as finished. Errors: io, resource.
  Result<void> finish_segment(std::size_t index);
  // Forgets all bytes. Errors: io, resource.
  Result<void> start_over();
  // Flushes everything and gives the file its final name, replacing what has it. Errors: io.
  Result<void> publish();

 private:
  PartFile(PartPlan plan, engram::OutputFile file) : plan_(std::move(plan)), file_(std::move(file)) {}
  void read_journal();
  Result<engram::OutputFile> replace_journal(const std::string& text) const;

  PartPlan plan_;
  engram::OutputFile file_;
  std::optional<engram::OutputFile> journal_;  // open from begin() on; files of one segment have none
  std::uint64_t journal_end_ = 0;
  std::set<std::size_t> finished_;
  std::string version_;
};

}  // namespace tandem::net::fetch
