// DryRun: a device without memory that runs nothing and counts what it would have run.
//
// While one lives, device memory is address space that nobody may touch, launches and copies inside it count as nodes,
// and a captured graph is the number of its nodes. So a step of a full-size model can be walked on any machine: how
// many kernels it has, and what the host spends on it.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tandem::gpu::emulation {

class DryRun {
 public:
  DryRun() noexcept;
  ~DryRun();
  DryRun(const DryRun&) = delete;
  DryRun& operator=(const DryRun&) = delete;

  static bool is_on() noexcept;
  // Kernels and copies so far.
  static std::int64_t nodes() noexcept;
  static void add_node() noexcept;
};

// Addresses of a dry run; null if there are none left.
void* reserve_addresses(std::size_t bytes) noexcept;
bool is_reserved(const void* address) noexcept;

}  // namespace tandem::gpu::emulation
