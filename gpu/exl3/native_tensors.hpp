// The tensors of a whole pack that stay as they are: embedding, norms, routers, small matrices.
//
// BF16 becomes F16 where that keeps every value, because runtimes of packs compute in F16; everything else is copied
// byte for byte. Engram tables are left out: they stay in the official shards, wherever those lie.
#pragma once

#include <string>
#include <vector>

#include "gpu/exl3/pack_job.hpp"

namespace tandem::gpu::exl3 {

// Returns the names of the tensors to copy, ascending; bytes is their sum in the source.
struct NativeList {
  std::vector<const TensorPlace*> tensors;
  std::uint64_t bytes = 0;
};
NativeList list_natives(const PackJob& job);

// Writes them as one or more shards of at most about a gigabyte; shards that are there are left alone. Returns the
// names of the files. Errors: io, cancelled, those of is_pack_shard_of.
Result<std::vector<std::string>> write_natives(const PackJob& job);

}  // namespace tandem::gpu::exl3
