// What no kernel beats on this card: the copy rate of its memory, and the rate at which it decodes EXL3 weights.
#pragma once

#include <array>
#include <iosfwd>
#include <string>

#include "gpu/cuda/bench/timing.hpp"
#include "gpu/cuda/exl3/layout.hpp"
#include "gpu/linear.hpp"

namespace tandem::gpu::cuda::bench {

struct CardLimits {
  std::string device;
  int processors = 0;
  double copy = 0;                                 // bytes read and written a second, device to device
  std::array<double, exl3_bits_max + 1> decode{};  // [bits 2..8] bytes of packed words a second

  double multiply = 0;  // FP16 matrix operations a second, of the instruction that the products use

  double of(int bits) const noexcept;  // the nearer one
  // Seconds that the nearest limit of one matrix needs: its bytes at the copy rate, its words at the decode ceiling,
  // the operations of `rows` rows at the rate of the matrix instruction.
  double seconds(const Linear& weight, double rows) const noexcept;
};

// Bytes of a weight as it lies in memory.
double bytes_of_weight(const Linear& weight) noexcept;

// Measures on a gigabyte of `pool`, which holds random words.
CardLimits measure_limits(Stream& stream, const DeviceBlock& pool);
// The same on a pool of its own, for measurements that need none. Errors: unavailable (no device), resource.
Result<CardLimits> measure_limits(int device);
void write_limits(std::ostream& out, const CardLimits& limits, bool json);

}  // namespace tandem::gpu::cuda::bench
