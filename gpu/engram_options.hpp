// How a rank reads its Engram rows: what a deployment may choose about it.
#pragma once

#include <filesystem>

namespace tandem::gpu {

struct EngramOptions {
  std::filesystem::path packed_folder;  // where packed files may lie; empty = the model folder
  int io_depth = 96;                    // reads in flight
  double cache_gib = 0;                 // memory for recently read rows, all tables together; 0 = none
};

}  // namespace tandem::gpu
