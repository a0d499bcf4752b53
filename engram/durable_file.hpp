// DurableFile: a file that appears under its name complete and on disk, or not at all.
//
// Bytes go to a temporary file in the same folder; commit() flushes it, renames it and flushes the folder. Without
// commit() the temporary file is removed: a crash or an error never leaves a half-written file under the final name.
//
// A kill leaves the temporary file, "NAME.XXXXXX.tandem-new": a name that no user gives to a file of theirs. Its writer
// has held a lock on it (flock) for as long as it lived, so there is one rule for who removes it and when: whoever next
// creates a file of the same name, or asks for it (remove_stale_temporaries), removes those that nobody holds; where
// the file system has no locks, those that are an hour old.
#pragma once

#include <chrono>
#include <cstddef>
#include <filesystem>
#include <functional>
#include <span>
#include <string_view>

#include "engram/error.hpp"

namespace tandem::engram {

class DurableFile {
 public:
  // Creates the temporary file beside `path`, or beside the file that `path` is a link to. Errors: io (among them:
  // something else than a regular file has that name, which is left alone).
  static Result<DurableFile> create(const std::filesystem::path& path);

  DurableFile(DurableFile&& other) noexcept;
  DurableFile(const DurableFile&) = delete;
  DurableFile& operator=(const DurableFile&) = delete;
  DurableFile& operator=(DurableFile&&) = delete;
  ~DurableFile();

  // Errors: io (disk full, ...).
  Result<void> append(std::span<const std::byte> bytes);
  // Makes the file visible, replacing one of the same name. Errors: io.
  Result<void> commit();
  // Where the bytes are until then.
  const std::filesystem::path& temporary() const noexcept { return temporary_; }

 private:
  DurableFile(int descriptor, std::filesystem::path temporary, std::filesystem::path path);
  static Result<DurableFile> create_temporary(const std::filesystem::path& path);
  bool is_ours() const;

  int descriptor_ = -1;  // holds the lock until the temporary file has lost its name
  std::filesystem::path temporary_;
  std::filesystem::path path_;
};

inline constexpr std::chrono::hours stale_age{1};  // where there are no locks: a file is written within seconds

// Returns the final name that a temporary file's name was made from, or nothing if it is none.
std::string_view replaced_name(std::string_view temporary) noexcept;
// Removes the temporary files in `folder` whose writers are dead, if `is_ours` says so of the final name. What cannot
// be removed stays: it harms nobody.
void remove_stale_temporaries(const std::filesystem::path& folder,
                              const std::function<bool(std::string_view)>& is_ours);

}  // namespace tandem::engram
