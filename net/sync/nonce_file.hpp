// A file with random content and a name of its own, written on one node to see whether the other node reads the same
// storage.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "engram/error.hpp"

namespace tandem::net::sync {

inline constexpr std::size_t nonce_file_bytes = 32;

// Whether a name is one that NonceFile gives: nothing else may be read by it.
bool is_nonce_file_name(std::string_view name) noexcept;

// The file lives as long as the object.
class NonceFile {
 public:
  // Removes those of killed processes as well. Errors: io (the folder cannot be written), internal.
  static Result<NonceFile> create(const std::filesystem::path& folder);
  NonceFile(NonceFile&& other) noexcept;
  NonceFile(const NonceFile&) = delete;
  NonceFile& operator=(const NonceFile&) = delete;
  NonceFile& operator=(NonceFile&&) = delete;
  ~NonceFile();

  const std::string& name() const noexcept { return name_; }
  const std::string& sha256() const noexcept { return sha256_; }

 private:
  NonceFile() = default;
  std::filesystem::path path_;
  std::string name_, sha256_;
};

}  // namespace tandem::net::sync
