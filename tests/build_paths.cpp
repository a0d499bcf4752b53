// The paths, as the build system gives them.
#include "tests/build_paths.hpp"

namespace tandem {

std::filesystem::path source_folder() {
  return TANDEM_SOURCE_DIR;
}

std::filesystem::path golden_model_folder() {
  return TANDEM_GOLDEN_MODEL;
}

std::filesystem::path tandem_binary() {
  return TANDEM_BINARY;
}

}  // namespace tandem
