// Full-size checkpoints without data: the released 40-layer configuration, real names, shapes and types, and shards
// that are nothing but a header in front of a hole. A terabyte of files takes some tens of MB of disk.
#pragma once

#include <cstdint>
#include <filesystem>

namespace tandem::gpu::test {

enum class ReleasedLayout : std::uint8_t {
  official,      // FP8 and FP4 with scales, 48 shards
  exl3,          // the 2.9-bit pack over the official tables
  exl3_experts,  // 2.77-bit banks and their plan beside official shards
};

class HeadersOnlyFolder {
 public:
  explicit HeadersOnlyFolder(ReleasedLayout layout);
  HeadersOnlyFolder(const HeadersOnlyFolder&) = delete;
  HeadersOnlyFolder& operator=(const HeadersOnlyFolder&) = delete;
  ~HeadersOnlyFolder();

  // The model folder.
  const std::filesystem::path& path() const noexcept { return model_; }
  // Blocks that all files together take on disk, in bytes.
  std::uint64_t disk_bytes() const;

 private:
  std::filesystem::path folder_;
  std::filesystem::path model_;
};

// One for the whole run of tests, made at its first use.
const HeadersOnlyFolder& released_checkpoint(ReleasedLayout layout);

}  // namespace tandem::gpu::test
