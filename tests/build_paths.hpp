// Where this build's sources and its executable are. Only build_paths.cpp is compiled with these paths: a source that
// had them among its flags would be unknown to the compiler cache in every other checkout.
#pragma once

#include <filesystem>

namespace tandem {

// The project's root, for goldens and shipped models.
std::filesystem::path source_folder();

// What tests/golden/model/recorded.tar.xz holds: recorded values of the reference forward, and `ckpt`, its checkpoint.
std::filesystem::path golden_model_folder();

// The executable `tandem` of this build; empty in a build without actors.
std::filesystem::path tandem_binary();

}  // namespace tandem
