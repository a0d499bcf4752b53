// FolderLists: the lists that a folder under fetch keeps.
//
// `tandem-manifest.json` says what the folder holds and changes only when a fetch has ended: until then it goes on
// describing what was there before. What a fetch that has not ended wants stands in a file of its own, and if another
// revision was wanted before and not ended either, that list is kept beside it: files of it may be there.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "gpu/weights_files/manifest.hpp"

namespace tandem::net::fetch {

class FolderLists {
 public:
  // Reads the lists; the folder exists and is locked by this fetch. Errors: none; a list that cannot be read counts
  // as one of an unknown revision.
  static FolderLists open(std::filesystem::path folder);

  // Returns the list of the fetch that was not ended, else what the folder holds. Errors: not_found, and those of
  // gpu::read_manifest().
  Result<gpu::Manifest> latest() const;
  // Returns whether all that the folder may hold is of this revision: then, and in a folder without lists (files
  // placed by hand), a file of the right size may pass for the right one where the list has no hash.
  bool is_all_of(const std::string& revision) const;

  // Returns the lists that could be read: what may be in the folder is in one of them, or was placed by hand.
  std::vector<gpu::Manifest> all() const;

  // Records what is wanted. Errors: io.
  Result<void> begin(const gpu::Manifest& wanted);
  // Records what the folder now holds; nothing is wanted any more. Errors: io.
  Result<void> end(const gpu::Manifest& held);

 private:
  explicit FolderLists(std::filesystem::path folder) : folder_(std::move(folder)) {}
  Result<void> write(const gpu::Manifest& list) const;

  std::filesystem::path folder_;
  Result<gpu::Manifest> held_ = Error{ErrorCode::not_found, "", "", ""};
  Result<gpu::Manifest> wanted_ = Error{ErrorCode::not_found, "", "", ""};
  Result<gpu::Manifest> earlier_ = Error{ErrorCode::not_found, "", "", ""};  // wanted before that, of another revision
};

}  // namespace tandem::net::fetch
