// bench_cuda_exl3 [quick]: EXL3 products at the shapes of DeepSeek-V4.1-Flash on one of two ranks, cold weights.
//
// Each figure is the median of graph replays that walk through more than 512 MB of different weights, so that none
// comes from the second-level cache. A call is everything from x to y; `product alone` starts from rotated rows. Weight
// bytes = inputs * outputs * K / 8, counted once. Limits, measured in the same run: copy rate (read + written) and
// decode ceiling (cuda_exl3_limits.cuh); `share` is of the smaller one. `public`: the format's own kernels
// (exllamav3 1.4.1, the fastest of its variants, cold weights) as measured on another card of the same model, H200,
// where known.
#include <cstring>
#include <numeric>
#include <set>

#include "tests/bench/cuda_exl3_limits.cuh"

using namespace exl3_device;

namespace {

constexpr std::size_t pool_bytes = std::size_t{3} << 30;
constexpr std::size_t cold_bytes = std::size_t{512} << 20;
constexpr int repeats = 9;

__global__ void fill_random(std::uint32_t* words, std::size_t count) {
  const std::size_t step = static_cast<std::size_t>(gridDim.x) * blockDim.x;
  for (std::size_t i = static_cast<std::size_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < count; i += step) {
    std::uint64_t z = (i + 1) * 0x9E3779B97F4A7C15ull;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
    words[i] = static_cast<std::uint32_t>((z ^ (z >> 27)) >> 16);
  }
}

struct Limits {
  double copy = 0;
  double decode[exl3_bits_max + 1] = {};
  double of(int bits) const { return std::min(copy, decode[bits]); }
};

// A captured sequence of launches and its replay.
class Graph {
 public:
  Graph(cudaStream_t stream, const std::function<void()>& launches) : stream_(stream) {
    require(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal), "capture");
    launches();
    cudaGraph_t graph;
    require(cudaStreamEndCapture(stream, &graph), "capture");
    require(cudaGraphInstantiate(&graph_, graph, 0), "instantiate");
    cudaGraphDestroy(graph);
  }
  Graph(const Graph&) = delete;
  ~Graph() { cudaGraphExecDestroy(graph_); }
  double ms() const {
    return median_ms(stream_, repeats, [this] { require(cudaGraphLaunch(graph_, stream_), "replay"); });
  }

 private:
  cudaStream_t stream_;
  cudaGraphExec_t graph_ = nullptr;
};

// Everything the products share: random words to cut matrices from, scales, rows.
struct Bench {
  cudaStream_t stream = nullptr;
  Array<std::uint32_t> pool{pool_bytes / 4};
  Array<__half> scales{std::vector<__half>(131072, __float2half(0.02f))};
  Array<__nv_bfloat16> x, y{std::size_t{512} * 65536};
  DeviceRotated rotated{1024, 8192};
  Limits limits;

  static std::vector<__nv_bfloat16> rows() {
    std::mt19937 random(1);
    std::normal_distribution<float> normal;
    std::vector<__nv_bfloat16> values(64 * 8192);
    for (auto& value : values) value = __float2bfloat16(normal(random));
    return values;
  }

  Bench() : x(rows()) {
    require(cudaStreamCreate(&stream), "stream");
    fill_random<<<1024, 256, 0, stream>>>(pool.get(), pool.size());
    limits.copy = copy_rate(stream, pool.get(), pool_bytes);
    for (int bits = 2; bits <= 6; ++bits) {
      const Array<std::uint32_t> keep(1);
      limits.decode[bits] = decode_rate(stream, bits, pool.get(), std::size_t{1} << 30);
    }
  }

  Exl3Matrix matrix(const Exl3Shape& shape, std::int64_t index) const {
    const auto bytes = static_cast<std::size_t>(exl3_bytes(shape.inputs, shape.outputs, shape.bits));
    const std::size_t slots = pool_bytes / bytes;
    return {shape, reinterpret_cast<const char*>(pool.get()) + (index % slots) * bytes, scales.get(), scales.get(),
            nullptr};
  }
  Exl3Rows in(int columns) const { return {x.get(), Exl3Element::bf16, columns, columns}; }
  Exl3Rows out(int columns) const { return {y.get(), Exl3Element::bf16, columns, columns}; }
};

void print_limits(const Limits& limits) {
  std::printf("copy rate %.0f GB/s (read + written)\n", limits.copy / 1e9);
  for (int bits = 2; bits <= 6; ++bits) {
    std::printf("decode ceiling K=%d: %.0f GB/s, %.2f Tweights/s\n", bits, limits.decode[bits] / 1e9,
                limits.decode[bits] * 8 / bits / 1e12);
  }
}

struct Case {
  const char* name;
  int inputs, outputs, bits;
  double public_us;  // 0: not known
};

constexpr Case cases[] = {
    {"wq_a", 5120, 1280, 5, 0},          {"wq_b", 1280, 16384, 5, 0},        {"wkv", 5120, 512, 5, 0},
    {"wo_a slice", 4096, 1024, 5, 0},    {"wo_b", 4096, 5120, 5, 0},         {"head", 5120, 64640, 6, 0},
    {"expert up", 5120, 1152, 2, 0},     {"expert up", 5120, 1152, 3, 17.3}, {"expert down", 1152, 5120, 2, 0},
    {"expert down", 1152, 5120, 3, 8.7}, {"shared up", 5120, 1152, 5, 0},    {"shared down", 1152, 5120, 4, 0},
    {"(compare)", 4096, 2048, 3, 12.4},  {"(compare)", 2048, 4096, 3, 9.9},  {"(compare)", 7168, 2048, 3, 17.2},
    {"(compare)", 5120, 2304, 3, 13.5},  {"(compare)", 7168, 2048, 2, 14.6}, {"(compare)", 7168, 2048, 4, 17.7}};

void print_row(const char* name, const Case& c, int rows, double us, double product_us, double bytes,
               const Limits& limits) {
  const double rate = bytes / us * 1e6;
  std::printf("| %-16s | %5d x %5d | %d | %2d | %8.2f | %8.2f | %5.0f | %3.0f%% | %3.0f%% | %3.0f%% |", name, c.inputs,
              c.outputs, c.bits, rows, us, product_us, rate / 1e9, 100 * rate / limits.copy,
              100 * rate / limits.decode[c.bits], 100 * rate / limits.of(c.bits));
  if (c.public_us > 0) {
    std::printf(" %.1fx |\n", c.public_us / us);
  } else {
    std::printf("  |\n");
  }
}

void bench_single(const Bench& bench, const Case& c, int rows) {
  const Exl3Shape shape{c.inputs, c.outputs, c.bits, Exl3Codebook::mul1};
  const auto bytes = static_cast<double>(exl3_bytes(c.inputs, c.outputs, c.bits));
  const int calls = std::max(4, static_cast<int>(cold_bytes / bytes) + 1);
  const auto sequence = [&](bool rotate) {
    return [&bench, &c, &shape, rows, calls, rotate] {
      for (int i = 0; i < calls; ++i) {
        const Exl3Matrix matrix = bench.matrix(shape, i);
        const Exl3Rows x = bench.in(c.inputs), y = bench.out(c.outputs);
        if (rotate) {
          require(exl3_multiply(bench.stream, matrix, x, y, rows, bench.rotated.view()), "exl3_multiply");
        } else {
          require(exl3_multiply_rotated(bench.stream, matrix, bench.rotated.view(), y, rows), "exl3_multiply_rotated");
        }
      }
    };
  };
  const double us = Graph(bench.stream, sequence(true)).ms() * 1e3 / calls;
  const double product_us = Graph(bench.stream, sequence(false)).ms() * 1e3 / calls;
  print_row(c.name, c, rows, us, product_us, bytes, bench.limits);
}

// One routing of `rows` rows to 6 of 384 experts each: lists as a routing kernel would leave them.
struct Routing {
  std::vector<Exl3Group> groups;
  std::vector<std::int32_t> matrix_of_row, source_of_row;
  int most = 0;
};

Routing route(int rows, int matrices_an_expert, std::mt19937& random) {
  constexpr int experts = 384, chosen = 6;
  std::vector<std::vector<std::int32_t>> members(experts);
  for (int row = 0; row < rows; ++row) {
    std::set<int> mine;
    while (mine.size() < chosen) mine.insert(static_cast<int>(random() % experts));
    for (const int expert : mine) members[expert].push_back(row);
  }
  Routing routing;
  for (int which = 0; which < matrices_an_expert; ++which) {
    for (int expert = 0; expert < experts; ++expert) {
      const auto count = static_cast<std::int32_t>(members[expert].size());
      if (count == 0) continue;
      const std::int32_t matrix = expert * matrices_an_expert + which;
      routing.groups.push_back({matrix, static_cast<std::int32_t>(routing.matrix_of_row.size()), count});
      routing.matrix_of_row.insert(routing.matrix_of_row.end(), count, matrix);
      routing.source_of_row.insert(routing.source_of_row.end(), members[expert].begin(), members[expert].end());
      routing.most = std::max(routing.most, static_cast<int>(count));
    }
  }
  return routing;
}

struct DeviceRouting {
  Array<Exl3Group> groups;
  Array<std::int32_t> matrix_of_row, source_of_row;
  Exl3Groups lists;
  int rows;

  DeviceRouting(const Routing& routing, const Array<Exl3Matrix>& table, int rows_most)
      : groups(routing.groups),
        matrix_of_row(routing.matrix_of_row),
        source_of_row(routing.source_of_row),
        lists{table.get(), groups.get(),        static_cast<int>(routing.groups.size()),
              rows_most,   matrix_of_row.get(), source_of_row.get()},
        rows(static_cast<int>(routing.matrix_of_row.size())) {}
};

// Grouped products of one kind over several routings. Returns bytes of weights and time of one launch pair.
void bench_groups(const Bench& bench, const char* name, const Case& c, int rows, int matrices_an_expert) {
  const Exl3Shape shape{c.inputs, c.outputs, c.bits, Exl3Codebook::mul1};
  std::mt19937 random(7);
  std::vector<Exl3Matrix> table;
  for (int i = 0; i < 384 * matrices_an_expert; ++i) table.push_back(bench.matrix(shape, i));
  const Array<Exl3Matrix> device_table(table);
  std::vector<DeviceRouting> routings;
  double bytes = 0;
  constexpr int calls = 16;
  for (int i = 0; i < calls; ++i) {
    const Routing routing = route(rows, matrices_an_expert, random);
    bytes += static_cast<double>(routing.groups.size()) * exl3_bytes(c.inputs, c.outputs, c.bits) / calls;
    routings.emplace_back(routing, device_table, rows);
  }
  const auto sequence = [&](bool rotate) {
    return [&, rotate] {
      for (const auto& routing : routings) {
        if (rotate) {
          require(exl3_rotate_groups(bench.stream, shape, routing.lists, bench.in(c.inputs), routing.rows,
                                     bench.rotated.view()),
                  "exl3_rotate_groups");
        }
        require(exl3_multiply_groups(bench.stream, shape, routing.lists, bench.rotated.view(), bench.out(c.outputs)),
                "multiply");
      }
    };
  };
  const double us = Graph(bench.stream, sequence(true)).ms() * 1e3 / calls;
  const double product_us = Graph(bench.stream, sequence(false)).ms() * 1e3 / calls;
  print_row(name, c, rows, us, product_us, bytes, bench.limits);
}

}  // namespace

int main(int argc, char** argv) {
  const bool quick = argc > 1 && std::strcmp(argv[1], "quick") == 0;
  cudaDeviceProp device;
  require(cudaGetDeviceProperties(&device, 0), "device");
  std::printf("%s, %d multiprocessors\n", device.name, device.multiProcessorCount);
  const Bench bench;
  print_limits(bench.limits);
  std::printf(
      "| matrix | inputs x outputs | K | M | us a call | product alone | GB/s | of copy | of decode | share |"
      " public / ours |\n|---|---|---|---|---|---|---|---|---|---|---|\n");
  const std::vector<int> rows = quick ? std::vector<int>{1, 8, 16, 64} : std::vector<int>{1, 2, 4, 6, 8, 16, 64};
  for (const auto& c : cases) {
    for (const int m : rows) bench_single(bench, c, m);
  }
  for (const int m : {1, 4, 8, 16, 64}) {
    for (const int bits : {2, 3}) {
      bench_groups(bench, "experts gate+up", {"", 5120, 1152, bits, 0}, m, 2);
      bench_groups(bench, "experts down", {"", 1152, 5120, bits, 0}, m, 1);
    }
  }
  return 0;
}
