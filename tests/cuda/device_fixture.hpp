// Both backends side by side: host vectors in, the device's results out, compared with the CPU's: bit by bit, or within
// a bound that has its reason beside it.
#pragma once

#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "gpu/cpu/cpu_ops.hpp"
#include "gpu/cuda/cuda_ops.hpp"
#include "gpu/ops.hpp"

namespace tandem::gpu::test {

// The two backends of this process. `cuda` is null where there is no usable device; `why` says so.
struct Backends {
  std::unique_ptr<Ops> cpu;
  std::unique_ptr<Ops> cuda;
  std::string why;
};
Backends& backends();
// Returns whether there is a device; says why not otherwise. Every case begins with it.
bool has_device();

using Floats = std::vector<float>;

// Random numbers from a seed that the caller prints by naming it in its messages.
class Random {
 public:
  explicit Random(std::uint32_t seed) : engine_(seed) {}
  // Normal numbers of the given spread.
  Floats floats(std::int64_t count, float spread = 1.0F);
  // The same, rounded to bf16: what activations are.
  Floats activations(std::int64_t count, float spread = 1.0F);
  std::vector<std::uint8_t> bytes(std::int64_t count, int low = 0, int high = 255);
  std::int64_t below(std::int64_t bound);

 private:
  std::mt19937 engine_;
};

// A weight with random codes and sensible scales, in host memory.
Linear random_linear(Random& random, WeightFormat format, std::int64_t n, std::int64_t k);
DenseF32 dense(const Floats& values, std::int64_t rows);
// Copies whose buffers lie on the device.
Linear placed(Linear weight);
DenseF32 placed(const DenseF32& values);
PartialLinear placed(PartialLinear weight);
MoeWeights placed(MoeWeights weights);
// A deep copy in host memory: Buffers are shared, so placing must not begin with the original.
Buffer copy_of(const Buffer& buffer);

// A matrix on the device.
class DeviceMatrix {
 public:
  DeviceMatrix(const Floats& values, std::int64_t rows);
  DeviceMatrix(const std::vector<std::int32_t>& values, std::int64_t rows);
  // Zeros.
  DeviceMatrix(std::int64_t rows, std::int64_t cols, DType dtype = DType::f32);
  const Tensor& tensor() const noexcept { return tensor_; }
  operator const Tensor&() const noexcept { return tensor_; }
  Floats floats() const;
  std::vector<std::int32_t> ints() const;
  std::vector<std::uint64_t> words() const;

 private:
  Buffer memory_;
  Tensor tensor_;
};

// Host bytes from the device.
std::vector<std::byte> bytes_on_host(const void* from, std::size_t bytes);

Tensor matrix(Floats& values, std::int64_t rows);

// Checks that both are the same bits (all NaNs are one); names the first difference and the number of them.
void check_same(const std::string& what, const Floats& cpu, const Floats& cuda);

// Checks attention on matrix units, heads of `width` channels, against the CPU's. Both round weights and results to
// bf16 at the same places; their scores and sums differ by the order of fp32 additions, some 1e-6, which now and then
// moves a number over an edge of rounding. So a channel may be off by a few bf16 steps, of at most 2^-7 of the head's
// largest channel: 2^-5. But few are: as a whole a row's heads are off by less than 2^-9.
void check_near(const std::string& what, std::int64_t width, const Floats& cpu, const Floats& cuda);

}  // namespace tandem::gpu::test
