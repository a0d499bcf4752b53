// The words are random: any of them are valid weights. All scales are small, so that nothing overflows.
#include "gpu/cuda/bench/product_ground.hpp"

#include "gpu/cuda/bench/bench_kernels.hpp"

namespace tandem::gpu::cuda::bench {
namespace {

constexpr std::uint16_t small_scale = 0x251F;  // 0.02 in fp16

}  // namespace

ProductGround::ProductGround(Stream& on, const GroundSizes& sizes)
    : stream(on),
      pool_bytes(sizes.pool),
      pool(on, sizes.pool),
      scales(on, sizes.scales * sizeof(std::uint16_t)),
      x(on, sizes.x),
      y(on, sizes.y),
      rotated(on, sizes.rotated),
      undo(on, static_cast<std::size_t>(sizes.rotated_rows) * exl3_slices_max * sizeof(float)) {
  if (!stream.is_sound()) return;
  stream.check(fill_random(stream.handle(), pool.as<std::uint32_t>(), pool_bytes / sizeof(std::uint32_t)), "words");
  send(scales, std::vector<std::uint16_t>(sizes.scales, small_scale));
  limits = measure_limits(stream, pool);
}

Exl3Matrix ProductGround::matrix(const Exl3Shape& shape, std::int64_t index) const {
  const auto bytes = static_cast<std::size_t>(exl3_bytes(shape.inputs, shape.outputs, shape.bits));
  const std::size_t slot = static_cast<std::size_t>(index) % (pool_bytes / bytes);
  return {shape, pool.as<std::byte>() + slot * bytes, scales.as<void>(), scales.as<void>(), nullptr};
}

void ProductGround::send_bytes(const DeviceBlock& block, const void* from, std::size_t bytes) const {
  stream.check(cudaMemcpy(block.as<void>(), from, bytes, cudaMemcpyHostToDevice), "values of a measurement");
}

}  // namespace tandem::gpu::cuda::bench
