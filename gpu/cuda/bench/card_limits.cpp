// The limits, each the median of nine runs over memory that no cache holds.
#include "gpu/cuda/bench/card_limits.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <ostream>

#include "gpu/cuda/bench/bench_kernels.hpp"

namespace tandem::gpu::cuda::bench {
namespace {

constexpr int repeats = 9;
constexpr std::size_t measured_bytes = std::size_t{1} << 30;
constexpr int bits_least = 2;
constexpr double group_bytes = 512;  // 64 x 64 weights, a bit each

double decode_rate(Stream& stream, int bits, const DeviceBlock& pool) {
  const DeviceBlock result(stream, sizeof(std::uint32_t));
  const std::size_t bytes = std::min(measured_bytes, pool.bytes());
  const auto groups = static_cast<std::int64_t>(static_cast<double>(bytes) / (bits * group_bytes));
  const double ms = median_ms(stream, repeats, [&] {
    stream.check(decode_only(stream.handle(), bits, pool.as<void>(), groups, result.as<std::uint32_t>()), "decode");
  });
  return ms == 0 ? 0 : static_cast<double>(groups) * bits * group_bytes / ms * 1e3;
}

}  // namespace

double CardLimits::of(int bits) const noexcept {
  return std::min(copy, decode[static_cast<std::size_t>(bits)]);
}

double CardLimits::seconds(const Linear& weight, double rows) const noexcept {
  const double operations = 2 * rows * static_cast<double>(weight.n) * static_cast<double>(weight.k);
  const double least = std::max(bytes_of_weight(weight) / copy, multiply == 0 ? 0 : operations / multiply);
  if (weight.format != WeightFormat::exl3) return least;
  const double rate = decode[static_cast<std::size_t>(weight.exl3.bits)];
  return rate == 0 ? least : std::max(least, static_cast<double>(weight.codes.bytes) / rate);
}

double bytes_of_weight(const Linear& weight) noexcept {
  return static_cast<double>(weight.codes.bytes + weight.scales.bytes);
}

CardLimits measure_limits(Stream& stream, const DeviceBlock& pool) {
  CardLimits limits;
  cudaDeviceProp device = {};
  int number = 0;
  stream.check(cudaGetDevice(&number), "device");
  stream.check(cudaGetDeviceProperties(&device, number), "device");
  limits.device = device.name;
  limits.processors = device.multiProcessorCount;
  const std::size_t half = std::min(measured_bytes, pool.bytes()) / 2;
  const double ms = median_ms(stream, repeats, [&] {
    stream.check(cudaMemcpyAsync(pool.as<std::byte>() + half, pool.as<std::byte>(), half, cudaMemcpyDeviceToDevice,
                                 stream.handle()),
                 "copy");
  });
  if (ms > 0) limits.copy = 2.0 * static_cast<double>(half) / ms * 1e3;
  for (int bits = bits_least; bits <= exl3_bits_max; ++bits) {
    limits.decode[static_cast<std::size_t>(bits)] = decode_rate(stream, bits, pool);
  }
  double operations = 0;
  const DeviceBlock result(stream, sizeof(float));
  const double multiplying = median_ms(stream, repeats, [&] {
    stream.check(multiply_only(stream.handle(), result.as<float>(), operations), "matrix instructions");
  });
  if (multiplying > 0) limits.multiply = operations / multiplying * 1e3;
  return limits;
}

Result<CardLimits> measure_limits(int device) {
  auto stream = Stream::open(device);
  if (!stream) return stream.error();
  const DeviceBlock pool(**stream, measured_bytes);
  if (auto ok = (*stream)->wait(); !ok) return ok.error();
  const std::size_t words = measured_bytes / sizeof(std::uint32_t);
  (*stream)->check(fill_random((*stream)->handle(), pool.as<std::uint32_t>(), words), "random words");
  const CardLimits limits = measure_limits(**stream, pool);
  if (auto ok = (*stream)->wait(); !ok) return ok.error();
  return limits;
}

void write_limits(std::ostream& out, const CardLimits& limits, bool json) {
  if (json) {
    out << fmt::format(R"({{"bench":"limits","device":"{}","processors":{},"copy_bytes_per_s":{:.4g},)"
                       R"("matrix_operations_per_s":{:.4g},"decode_bytes_per_s":[)",
                       limits.device, limits.processors, limits.copy, limits.multiply);
  } else {
    out << fmt::format(
        "{}, {} multiprocessors; copy {:.0f} GB/s (read + written); mma {:.0f} TFLOP/s; decode GB/s of packed words:",
        limits.device, limits.processors, limits.copy / 1e9, limits.multiply / 1e12);
  }
  for (int bits = bits_least; bits <= exl3_bits_max; ++bits) {
    const double rate = limits.decode[static_cast<std::size_t>(bits)];
    out << (json ? fmt::format("{}{:.4g}", bits == bits_least ? "" : ",", rate)
                 : fmt::format(" K={} {:.0f}", bits, rate / 1e9));
  }
  out << (json ? "]}\n" : "\n") << std::flush;
}

}  // namespace tandem::gpu::cuda::bench
