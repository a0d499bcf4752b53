// CpuOps: the CPU backend of Ops, vectorised and threaded; also the reference that other backends are compared with.
#pragma once

#include <memory>

#include "gpu/ops.hpp"

namespace tandem::gpu {

// Returns a backend that computes with `threads` threads, the calling one included (at least 1). One thread calls it at
// a time. Results are the same bits for any number of threads and on any instruction set. Tensors are f32 (i32 for ids)
// in host memory. `order` is that of all sums but those of EXL3 products.
std::unique_ptr<Ops> make_cpu_ops(int threads, SumOrder order = SumOrder::lanes);

}  // namespace tandem::gpu
