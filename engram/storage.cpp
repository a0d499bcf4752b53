// Choice of the engine at start, choice of the file mode at each open.
#include "engram/storage.hpp"

#include <fmt/format.h>

namespace tandem::engram {

Storage::Storage(StorageOptions options) : options_(std::move(options)) {
  // A replaced file system has no descriptors to give to the kernel.
  if (options_.uring && !options_.open_file) {
    auto engine = make_uring_engine(options_.depth);
    if (engine) {
      engine_ = std::move(*engine);
    } else if (options_.announce) {
      options_.announce(
          fmt::format("{}; Engram rows are read by {} threads", engine.error().message(), options_.threads));
    }
  }
  if (!engine_) engine_ = make_pread_engine(options_.threads);
}

void Storage::announce_once(bool& told, const std::string& text) {
  const std::lock_guard lock(mutex_);
  if (told) return;
  told = true;
  if (options_.announce) options_.announce(text);
}

Result<std::unique_ptr<InputFile>> Storage::open(const std::filesystem::path& path) {
  if (options_.open_file) return options_.open_file(path);
  if (!options_.direct) return open_buffered(path);
  auto file = open_direct(path);
  if (file || file.error().code != ErrorCode::unavailable) return file;
  announce_once(told_buffered_, fmt::format("{}; Engram rows are read through the page cache", file.error().message()));
  return open_buffered(path);
}

}  // namespace tandem::engram
