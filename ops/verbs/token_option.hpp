// The option --token-file, which several verbs have: the secret that two nodes share, or an error that names the
// option.
#pragma once

#include <string>

#include "engram/error.hpp"

namespace tandem::ops {

// Reads the shared secret. Errors, all naming the option: bad_config (none given, no such file, others may read it, too
// short), io.
Result<std::string> read_token(const std::string& token_file);

}  // namespace tandem::ops
