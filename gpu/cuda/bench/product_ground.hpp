// ProductGround: what measurements of EXL3 products stand on: random words to cut matrices from, scales, room for rows
// and results, and the card's limits. Rows are filled by whoever knows their type.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "gpu/cuda/bench/card_limits.hpp"
#include "gpu/cuda/exl3/exl3.hpp"

namespace tandem::gpu::cuda::bench {

// In bytes, but for the last one.
struct GroundSizes {
  std::size_t pool = 0, x = 0, y = 0, rotated = 0;
  std::size_t scales = 0;  // fp16 numbers, as many as the longer side of any matrix has at least
  std::int64_t rotated_rows = 0;
};

struct ProductGround {
  Stream& stream;
  std::size_t pool_bytes;
  DeviceBlock pool, scales, x, y, rotated, undo;
  CardLimits limits;

  // Failures are kept by the stream.
  ProductGround(Stream& on, const GroundSizes& sizes);

  template <class T>
  void send(const DeviceBlock& block, const std::vector<T>& values) const {
    send_bytes(block, values.data(), values.size() * sizeof(T));
  }
  // Matrix `index`: other words than those of the matrices before it, as long as the pool has any.
  Exl3Matrix matrix(const Exl3Shape& shape, std::int64_t index) const;
  Exl3Rotated rotation() const { return {rotated.as<void>(), undo.as<float>()}; }

 private:
  void send_bytes(const DeviceBlock& block, const void* from, std::size_t bytes) const;
};

}  // namespace tandem::gpu::cuda::bench
