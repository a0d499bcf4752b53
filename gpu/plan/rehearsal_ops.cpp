// Address space from the kernel, without access and without a promise of memory.
#include "gpu/plan/rehearsal_ops.hpp"

#include <sys/mman.h>

namespace tandem::gpu {

Buffer ReservedAddresses::allocate(std::size_t bytes) {
  if (bytes == 0) return {};
  void* place = ::mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (place == MAP_FAILED) return {};
  return {{static_cast<std::byte*>(place), [bytes](std::byte* data) { ::munmap(data, bytes); }}, bytes};
}

}  // namespace tandem::gpu
