// CudaContext: what the operations of one CudaOps share. Members are destroyed in reverse: scratch and memory give
// their blocks back before the stream ends.
#pragma once

#include <memory>
#include <utility>

#include "gpu/cuda/chain_product.hpp"
#include "gpu/cuda/device_memory.hpp"
#include "gpu/cuda/staging.hpp"
#include "gpu/cuda/step_graphs.hpp"
#include "gpu/cuda/stream.hpp"
#include "gpu/model/workspace.hpp"
#include "gpu/ops.hpp"

namespace tandem::gpu::cuda {

// Products of a shared expert that begin_moe left beside the stream for the moe() that follows.
struct BegunShared {
  const MoeWeights* weights = nullptr;  // null: none
  const void* x = nullptr;
  Tensor products;  // [slices * T, D]
};

struct CudaContext {
  CudaContext(std::unique_ptr<Stream> opened, std::size_t staging_bytes)
      : owned(std::move(opened)),
        stream(*owned),
        staging(stream, staging_bytes),
        memory(stream, staging),
        scratches{Workspace(memory), Workspace(memory), Workspace(memory)},
        all_tickets(memory.allocate((1 + Stream::sides) * ticket_rows_most * sizeof(unsigned))),
        graphs(stream, staging) {}

  std::unique_ptr<Stream> owned;
  Stream& stream;
  Staging staging;
  DeviceMemory memory;
  Workspace scratches[1 + Stream::sides];  // of the stream and of its sides
  Buffer all_tickets;                      // zeros between operations (last_block.cuh)
  StepGraphs graphs;
  BegunShared begun_shared;

  // Intermediate tensors inside one operation: of the side that it goes to, since sides run at the same time.
  Workspace& scratch() noexcept { return scratches[1 + stream.here()]; }

  // Tickets of the side that operations go to, ticket_rows_most of them.
  unsigned* tickets() const noexcept { return all_tickets.as<unsigned>() + (1 + stream.here()) * ticket_rows_most; }

  // See Stream::run.
  template <class Launch, class... Arguments>
  void run(const char* what, const Launch& launch, const Arguments&... arguments) {
    stream.run(what, launch, arguments...);
  }
};

}  // namespace tandem::gpu::cuda
