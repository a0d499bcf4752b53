// Which files a copy is about: those of the model folder, and those that its manifest lists besides.
//
// A folder's listing leaves out what tools keep beside a model (names with a dot, unfinished parts); a manifest may
// list such a file all the same, and the other node is to have what the manifest says.
#pragma once

#include <filesystem>
#include <vector>

#include "net/sync/copy_files.hpp"
#include "net/sync/own_hashes.hpp"

namespace tandem::net::sync {

// Returns the files ascending by path, each with its hash where that is known. Errors: not_found, io, out_of_range
// (those of list_model_files(), a file of too many chunks), mismatch (a file that the manifest lists is missing or has
// another size: the copy would be wrong in the end), bad_format (a name that no manifest may have).
Result<std::vector<CopyFile>> list_copy(const std::filesystem::path& folder, OwnHashes& hashes,
                                        std::uint64_t chunk_bytes);

}  // namespace tandem::net::sync
