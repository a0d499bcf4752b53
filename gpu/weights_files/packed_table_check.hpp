// W8: packed Engram files, if there are any, are whole and fit this model and its ranks.
#pragma once

#include <filesystem>

#include "gpu/weights_files/header_checks.hpp"

namespace tandem::gpu {

// Opens every packed file in `folder` that is named for `ranks` ranks exactly as serving does: header, size, receipt,
// a sample of checksums (all of them if the file was touched) and of rows against the checkpoint. A file of another
// model or rank fails the check, but loading goes on without it; a damaged one stops loading. Skipped if there is none.
WeightCheck check_packed_tables(const WeightHeaders& headers, const std::filesystem::path& folder, int ranks);

}  // namespace tandem::gpu
