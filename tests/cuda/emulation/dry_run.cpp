// One range of addresses for the life of the process: nobody reuses any, so a stale address is never a valid one.
#include "tests/cuda/emulation/dry_run.hpp"

#include <sys/mman.h>

namespace tandem::gpu::emulation {
namespace {

constexpr std::size_t range_bytes = std::size_t{1} << 41;
constexpr std::size_t alignment = 256;  // of cudaMalloc

struct Range {
  std::byte* first = nullptr;
  std::size_t used = 0;
  std::int64_t nodes = 0;
  bool is_on = false;
};

Range& range() noexcept {
  static Range only;
  return only;
}

}  // namespace

DryRun::DryRun() noexcept {
  range().is_on = true;
}
DryRun::~DryRun() {
  range().is_on = false;
}
bool DryRun::is_on() noexcept {
  return range().is_on;
}
std::int64_t DryRun::nodes() noexcept {
  return range().nodes;
}
void DryRun::add_node() noexcept {
  ++range().nodes;
}

void* reserve_addresses(std::size_t bytes) noexcept {
  Range& all = range();
  if (all.first == nullptr) {
    void* place = ::mmap(nullptr, range_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (place == MAP_FAILED) return nullptr;
    all.first = static_cast<std::byte*>(place);
  }
  const std::size_t size = (bytes + alignment - 1) / alignment * alignment;
  if (size > range_bytes - all.used) return nullptr;
  void* result = all.first + all.used;
  all.used += size;
  return result;
}

bool is_reserved(const void* address) noexcept {
  const auto* at = static_cast<const std::byte*>(address);
  const Range& all = range();
  return all.first != nullptr && at >= all.first && at < all.first + range_bytes;
}

}  // namespace tandem::gpu::emulation
