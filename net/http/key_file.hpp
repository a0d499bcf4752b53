// The key file: one key a line, readable by its owner only. Generated on the first start of a listener that others can
// reach.
#pragma once

#include "engram/error.hpp"

#include <filesystem>
#include <string>
#include <vector>

namespace tandem::net::http {

// Returns the keys of the file: lines without surrounding white space; empty lines and lines that begin with '#' are
// skipped. Errors: not_found, bad_config (others may read or write it, or it holds no key), io.
Result<std::vector<std::string>> load_keys(const std::filesystem::path& file);

// As load_keys(); a file that does not exist is created (0600, complete or not at all) with one random key.
Result<std::vector<std::string>> load_or_create_keys(const std::filesystem::path& file);

}  // namespace tandem::net::http
