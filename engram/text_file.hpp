// Small files that are read whole: configurations, token maps, receipts, journals. They come in through open_buffered()
// like everything else, so that a pipe or a folder in the place of a file is an error here too and never a wait.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "engram/error.hpp"

namespace tandem::engram {

// Returns the content of a file. Errors: those of open_buffered(), io (reading failed, or the file became shorter),
// out_of_range above `bytes_max`, which is checked before anything is read.
Result<std::string> read_text(const std::filesystem::path& path, std::uint64_t bytes_max);

}  // namespace tandem::engram
