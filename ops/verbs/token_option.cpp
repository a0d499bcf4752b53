// The error is the file's own, with the option before its name.
#include "ops/verbs/token_option.hpp"

#include "net/sync/handshake.hpp"

namespace tandem::ops {

Result<std::string> read_token(const std::string& token_file) {
  if (token_file.empty()) return Error{ErrorCode::bad_config, "--token-file", "none", "the file that both nodes have"};
  auto token = net::sync::load_token(token_file);
  if (token) return token;
  Error error = token.error();
  error.where = "--token-file " + error.where;
  if (error.code == ErrorCode::not_found) error.code = ErrorCode::bad_config;
  return error;
}

}  // namespace tandem::ops
