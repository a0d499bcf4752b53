// Stray parts: what was gathered of files that nobody wants any more, or that came another way. They hold as much space
// as the whole files.
#pragma once

#include <filesystem>
#include <vector>

#include "gpu/weights_files/manifest.hpp"

namespace tandem::net::fetch {

// Removes parts and their journals that belong to no file of `wanted`, from every folder below the model's in which a
// list of `known` or `wanted` has files. The model folder is locked by this fetch. What cannot be removed stays.
void remove_stray_parts(const std::filesystem::path& folder, const std::vector<gpu::Manifest>& known,
                        const gpu::Manifest& wanted);

}  // namespace tandem::net::fetch
