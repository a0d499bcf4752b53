// Storage: how table files are opened and read on this machine: the best engine that works, announced where it is not
// the first choice.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <string>

#include "engram/io_engine.hpp"

namespace tandem::engram {

struct StorageOptions {
  bool uring = true;                                 // try io_uring before the thread pool
  bool direct = true;                                // bypass the page cache where the file system lets us
  int depth = 64;                                    // reads in flight with io_uring
  int threads = 32;                                  // reads in flight with the thread pool
  FileOpener open_file;                              // replaces the file system (tests); empty = the real one
  std::function<void(const std::string&)> announce;  // told once about each fallback; may be empty
};

class Storage {
 public:
  explicit Storage(StorageOptions options = {});

  // Opens a file for the engine; falls back from direct to buffered reads. Errors: not_found, io.
  Result<std::unique_ptr<InputFile>> open(const std::filesystem::path& path);
  IoEngine& engine() noexcept { return *engine_; }

 private:
  void announce_once(bool& told, const std::string& text);

  StorageOptions options_;
  std::unique_ptr<IoEngine> engine_;
  std::mutex mutex_;  // guards the flag
  bool told_buffered_ = false;
};

}  // namespace tandem::engram
