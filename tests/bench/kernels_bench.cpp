// bench_kernels [threads]: products of all weight formats against this machine's own limits, measured in the same run.
//
// Limits: bytes per second of reading memory with the same threads, and multiply-adds per second of a product whose
// operands stay in the first-level cache. Few rows are bound by reading or decoding weights, many rows by arithmetic.
// Weights are larger than the caches and visited in turn. Each figure is the best of several runs after a warm-up.
#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <functional>
#include <limits>
#include <numeric>
#include <random>
#include <thread>

#include "gpu/cpu/cpu_ops.hpp"
#include "gpu/cpu/simd/kernels.hpp"
#include "gpu/cpu/thread_pool.hpp"

using namespace tandem::gpu;

namespace {

constexpr std::int64_t outputs = 2304, inputs = 5120;  // w1 of a released expert
constexpr std::size_t weight_bytes_in_turn = std::size_t{256} << 20;

struct Format {
  WeightFormat format;
  const char* name;
  double bytes_per_weight;
};
constexpr Format formats[] = {{WeightFormat::bf16, "bf16", 2.0},
                              {WeightFormat::fp8_block32, "fp8", 1.0 + 1.0 / 1024},
                              {WeightFormat::fp4_block32, "fp4", 0.5 + 1.0 / 32}};

// Seconds of the fastest of `runs` calls after one warm-up.
double best_seconds(int runs, const std::function<void()>& body) {
  body();
  double best = std::numeric_limits<double>::max();
  for (int run = 0; run < runs; ++run) {
    const auto start = std::chrono::steady_clock::now();
    body();
    best = std::min(best, std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  }
  return best;
}

double memory_bytes_per_second(ThreadPool& pool) {
  std::vector<float> data(std::size_t{64} << 20, 1.0F);
  std::vector<float> sums(static_cast<std::size_t>(pool.threads()));
  const double seconds = best_seconds(5, [&] {
    pool.parallel_for(static_cast<std::int64_t>(data.size()), 1, [&](const WorkRange& range) {
      // Chunks read several streams at once, as products do.
      sums[static_cast<std::size_t>(range.worker)] =
          simd::dot(data.data() + range.first, data.data() + range.first, range.last - range.first);
    });
  });
  return static_cast<double>(data.size() * sizeof(float)) / seconds;
}

double multiply_adds_per_second(ThreadPool& pool) {
  constexpr std::int64_t rows = 6, depth = 512;
  constexpr int repeats = 2000;
  const double seconds = best_seconds(5, [&] {
    pool.parallel_for(pool.threads(), 1, [&](const WorkRange&) {
      std::vector<float> x(rows * depth, 1.0F), w(simd::tile_cols * depth, 1.0F),
          acc(rows * simd::tile_cols * simd::lanes);
      std::vector<const float*> pointers;
      for (std::int64_t r = 0; r < rows; ++r) pointers.push_back(x.data() + r * depth);
      simd::Tile tile{pointers.data(), 0,    w.data(),        depth, acc.data(),
                      simd::tile_cols, rows, simd::tile_cols, depth, false};
      for (int i = 0; i < repeats; ++i) simd::multiply_tile(tile);
    });
  });
  return static_cast<double>(rows * simd::tile_cols * depth) * repeats * pool.threads() / seconds;
}

std::vector<Linear> make_weights(const Format& format) {
  const auto bytes = static_cast<std::size_t>(static_cast<double>(outputs * inputs) * format.bytes_per_weight);
  std::vector<Linear> weights(std::max<std::size_t>(1, weight_bytes_in_turn / bytes));
  std::mt19937 random(1);
  for (Linear& weight : weights) {
    weight.format = format.format;
    weight.n = outputs;
    weight.k = inputs;
    weight.codes =
        Buffer::host(static_cast<std::size_t>(outputs * inputs) * (format.format == WeightFormat::bf16 ? 2 : 1));
    weight.scales = Buffer::host(static_cast<std::size_t>(outputs * inputs) / 32);
    auto* codes = weight.codes.as<std::uint8_t>();
    // Small finite numbers in every format: no exponent bits on top.
    for (std::size_t i = 0; i < weight.codes.bytes; ++i) codes[i] = static_cast<std::uint8_t>(random() & 0x3FU);
    std::fill_n(weight.scales.as<std::uint8_t>(), weight.scales.bytes, std::uint8_t{120});
  }
  return weights;
}

void measure(Ops& ops, const Format& format, double memory, double arithmetic) {
  const std::vector<Linear> weights = make_weights(format);
  for (const std::int64_t rows : {1, 2, 4, 8, 64, 512}) {
    std::vector<float> x(static_cast<std::size_t>(rows * inputs), 0.5F), y(static_cast<std::size_t>(rows * outputs));
    const std::size_t count = rows <= 8 ? weights.size() : 1;
    const double seconds = best_seconds(rows <= 64 ? 3 : 1,
                                        [&] {
                                          for (std::size_t i = 0; i < count; ++i) {
                                            ops.linear(Tensor::f32(x.data(), rows, inputs), weights[i], {},
                                                       Tensor::f32(y.data(), rows, outputs));
                                          }
                                        }) /
                           static_cast<double>(count);
    const double bytes = static_cast<double>(outputs * inputs) * format.bytes_per_weight / seconds;
    const double macs = static_cast<double>(rows * outputs * inputs) / seconds;
    fmt::print(
        "{:5} M={:<4} {:9.1f} us  {:7.2f} GB/s of weights ({:5.1f} % of memory)  {:8.1f} GFLOP/s ({:5.1f} % of peak)\n",
        format.name, rows, seconds * 1e6, bytes / 1e9, 100 * bytes / memory, 2 * macs / 1e9, 100 * macs / arithmetic);
  }
}

}  // namespace

int main(int argc, char** argv) {
  const int threads = argc > 1 ? std::atoi(argv[1]) : static_cast<int>(std::thread::hardware_concurrency());
  ThreadPool pool(threads);
  const double memory = memory_bytes_per_second(pool), arithmetic = multiply_adds_per_second(pool);
  fmt::print("threads {}, memory {:.1f} GB/s, multiply-add peak {:.1f} GFLOP/s, W [{}, {}]\n", threads, memory / 1e9,
             2 * arithmetic / 1e9, outputs, inputs);
  const auto ops = make_cpu_ops(threads);
  for (const Format& format : formats) measure(*ops, format, memory, arithmetic);
  return 0;
}
