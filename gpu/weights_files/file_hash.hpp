// SHA-256 of large files: several at a time, with progress, without filling the page cache.
//
// On the target machines the page cache is the device's memory: what was hashed is given back at once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "gpu/weights_files/model_files.hpp"
#include "gpu/weights_files/receipts.hpp"

namespace tandem::gpu {

// SHA-256 by the processor's own instructions where it has them (OpenSSL): 1.6 GB/s where plain C++ gives 0.24.
class FastSha256 {
 public:
  FastSha256();
  FastSha256(FastSha256&&) noexcept;
  FastSha256& operator=(FastSha256&&) noexcept;
  ~FastSha256();
  void update(std::span<const std::byte> bytes);
  // Returns the digest as 64 lower-case hexadecimal digits; the object must not be used afterwards.
  std::string finish();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

struct HashProgress {
  std::uint64_t bytes_done = 0, bytes_total = 0;
  std::size_t files_done = 0, files_total = 0;
  double bytes_per_s = 0;
  double eta_s = 0;  // 0 while the rate is unknown
};

struct HashOptions {
  int threads = 4;
  // Told twice a second and at the end, in the calling thread; returning false ends with `cancelled`.
  std::function<bool(const HashProgress&)> progress;
  // Told about every hashed file soon after it is done, in the calling thread: what is known need not be lost when the
  // process is stopped on the way. May be empty.
  std::function<void(std::size_t file, const FileReceipt&)> on_file;
};

// Hashes one file. `on_bytes` hears of every piece that was read and ends the work by returning false; it may be empty.
// Errors: not_found, io, cancelled, mismatch (the file changed while it was read).
Result<FileReceipt> hash_file(const std::filesystem::path& file,
                              const std::function<bool(std::uint64_t)>& on_bytes = {});

// Hashes many files, the largest first; the results stand in the order of `files`.
std::vector<Result<FileReceipt>> hash_files(std::span<const std::filesystem::path> files, const HashOptions& options);

}  // namespace tandem::gpu
