// The largest unit of which there is a whole one.
#include "gpu/weights_files/byte_count.hpp"

#include <fmt/format.h>

namespace tandem::gpu {

std::string bytes_text(std::uint64_t bytes) {
  if (bytes < 1024) return fmt::format("{} bytes", bytes);
  const auto count = static_cast<double>(bytes);
  if (bytes < std::uint64_t{1} << 20) return fmt::format("{:.1f} KiB", count / 1024);
  if (bytes < std::uint64_t{1} << 30) return fmt::format("{:.1f} MiB", count / (1 << 20));
  return fmt::format("{:.2f} GiB", count / (1 << 30));
}

}  // namespace tandem::gpu
