// The folder of a pack around its shards: who works in it, what is left from a killed run, and the small files that
// make it a model: configuration, tokenizer, references.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "gpu/exl3/pack_job.hpp"

namespace tandem::gpu::exl3 {

inline constexpr const char* pieces_folder_name = "exl3_pieces";  // matrices whose shard is not complete

// One process at a time: held until the object, or the process however it ends, is gone.
class FolderLock {
 public:
  // Errors: unavailable (another process works in the folder), io.
  static Result<FolderLock> take(const std::filesystem::path& folder);
  FolderLock(FolderLock&& other) noexcept;
  FolderLock& operator=(FolderLock&&) = delete;
  ~FolderLock();

 private:
  explicit FolderLock(int descriptor) : descriptor_(descriptor) {}
  int descriptor_ = -1;
};

// Where the shards of packed matrices go: the folder itself, or its one expert bank.
std::filesystem::path shard_folder(const PackJob& job);
std::string shard_name(std::size_t shard);

// Makes the folder. Errors: io; invalid_argument (files of something else are there).
Result<void> prepare_pack_folder(const PackJob& job);

// Removes temporary files that a killed run left; call with the lock held.
void remove_leftovers(const PackJob& job);

// Writes everything but shards; `shards` are all of the folder's own. The index, without which the folder is no
// checkpoint, comes last. Errors: io and those of reading the source's files.
Result<void> finish_pack_folder(const PackJob& job, const std::vector<std::string>& shards);

}  // namespace tandem::gpu::exl3
