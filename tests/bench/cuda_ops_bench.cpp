// bench_cuda_ops: every operation of a decode step in the sizes of the released model, on one device.
//
// Prints microseconds an operation and, where memory should be the limit, the share of this device's copy rate measured
// in the same run. Weights are visited in turn, 256 MiB before one comes again, so none is read from a cache; they are
// zeros, on which no kernel's time depends. Each figure is the mean of 20 calls on a busy stream after a warm-up.
#include <cuda_runtime_api.h>
#include <fmt/core.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <numeric>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "gpu/cuda/cuda_ops.hpp"

using namespace tandem::gpu;

namespace {

constexpr int calls = 20;
constexpr std::int64_t bytes_in_turn = std::int64_t{256} << 20;
constexpr std::int64_t hidden = 5120;

class Bench {
 public:
  explicit Bench(Ops& ops) : ops_(ops) {}

  // Times body(call number); `bytes` is what one call must at least move, 0 if memory is not the limit.
  void time(const std::string& name, std::int64_t rows, double bytes, const std::function<void(int)>& body) {
    body(0);
    if (!ops_.wait()) return;
    const auto start = std::chrono::steady_clock::now();
    for (int call = 0; call < calls; ++call) body(call);
    const bool sound = ops_.wait().has_value();
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count() / calls;
    fmt::print("{:28} M={:<4} {:10.1f} us", name, rows, seconds * 1e6);
    if (bytes > 0)
      fmt::print("  {:7.1f} GB/s  {:5.1f} % of copy", bytes / seconds / 1e9, 100 * bytes / seconds / copy_);
    fmt::print("{}\n", sound ? "" : "  FAILED");
  }

  // The same for calls inside a graph, as those of a step are.
  void time_in_graph(const std::string& name, std::int64_t rows, const std::function<void(int)>& body) {
    constexpr int graphs = 10;
    const auto step = [&]() -> tandem::Result<void> {
      for (int call = 0; call < calls; ++call) body(call);
      return {};
    };
    bool sound = true;
    for (int warm = 0; warm < 4; ++warm) sound = ops_.run_as_one(step).has_value() && sound;
    sound = ops_.wait().has_value() && sound;
    const auto start = std::chrono::steady_clock::now();
    for (int graph = 0; graph < graphs; ++graph) sound = ops_.run_as_one(step).has_value() && sound;
    sound = ops_.wait().has_value() && sound;
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    fmt::print("{:28} M={:<4} {:10.1f} us{}\n", name, rows, seconds / graphs / calls * 1e6, sound ? "" : "  FAILED");
  }

  void measure_copy() {
    const std::size_t size = std::size_t{1} << 30;
    const Buffer from = ops_.memory().allocate(size), to = ops_.memory().allocate(size);
    const auto copy = [&](int) { cudaMemcpy(to.data.get(), from.data.get(), size, cudaMemcpyDeviceToDevice); };
    copy(0);
    cudaDeviceSynchronize();
    const auto start = std::chrono::steady_clock::now();
    for (int call = 0; call < calls; ++call) copy(call);
    cudaDeviceSynchronize();
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count() / calls;
    copy_ = 2 * static_cast<double>(size) / seconds;
    fmt::print("copy {:.1f} GB/s, read and written bytes\n", copy_ / 1e9);
  }

  Tensor rows(std::int64_t count, std::int64_t cols, DType dtype = DType::f32) {
    kept_.push_back(ops_.memory().allocate(static_cast<std::size_t>(count * cols) * element_bytes(dtype)));
    return {kept_.back().data.get(), dtype, count, cols, cols};
  }

  Linear weight(WeightFormat format, std::int64_t n, std::int64_t k) {
    const double per_weight = format == WeightFormat::bf16 ? 2 : (format == WeightFormat::fp4_block32 ? 0.5 : 1);
    Linear linear;
    linear.format = format;
    linear.n = n;
    linear.k = k;
    linear.codes = ops_.memory().allocate(static_cast<std::size_t>(static_cast<double>(n * k) * per_weight));
    const std::int64_t scale_rows = format == WeightFormat::fp8_block32 ? (n + 31) / 32 : n;
    if (format != WeightFormat::bf16)
      linear.scales = ops_.memory().allocate(static_cast<std::size_t>(scale_rows * k / 32));
    return linear;
  }

  Ops& ops() { return ops_; }

 private:
  Ops& ops_;
  double copy_ = 1;
  std::vector<Buffer> kept_;
};

void time_linear(Bench& bench, const std::string& name, WeightFormat format, std::int64_t n, std::int64_t k) {
  std::vector<Linear> weights;
  std::int64_t bytes = 0;
  do {
    weights.push_back(bench.weight(format, n, k));
    bytes += static_cast<std::int64_t>(weights.back().codes.bytes + weights.back().scales.bytes);
  } while (bytes < bytes_in_turn);
  const double each = static_cast<double>(bytes) / static_cast<double>(weights.size());
  for (const std::int64_t count : {1, 6, 64}) {
    const Tensor x = bench.rows(count, k), y = bench.rows(count, n);
    bench.time(name, count, each, [&](int call) {
      const auto number = static_cast<std::size_t>(call) % weights.size();
      bench.ops().linear(x, weights[number], {format != WeightFormat::bf16, true}, y);
    });
  }
}

void time_rows(Bench& bench) {
  ModelConfig config;
  config.hidden = hidden;
  config.hc_mult = 4;
  config.hc_sinkhorn_iters = 20;
  config.norm_eps = 1e-20;
  HyperConnection hc;
  hc.fn = {bench.ops().memory().allocate(24 * 4 * hidden * 4), 24, 4 * hidden};
  hc.base = {bench.ops().memory().allocate(24 * 4), 1, 24};
  hc.scale = {bench.ops().memory().allocate(3 * 4), 1, 3};
  const DenseF32 norm{bench.ops().memory().allocate(hidden * 4), 1, hidden};
  for (const std::int64_t count : {1, 6}) {
    const Tensor streams = bench.rows(count, 4 * hidden), y = bench.rows(count, hidden), u = bench.rows(count, hidden);
    const HcMix mix{bench.rows(count, 4), bench.rows(count, 4), bench.rows(count, 16)};
    bench.time("mhc mix", count, 0, [&](int) { bench.ops().mhc_mix(streams, hc, config, mix); });
    bench.time("mhc collapse", count, 0, [&](int) { bench.ops().mhc_collapse(streams, mix.pre, true, u); });
    bench.time("mhc expand", count, 0, [&](int) { bench.ops().mhc_expand(streams, y, mix, true); });
    bench.time("rmsnorm 5120", count, 0, [&](int) { bench.ops().rmsnorm(y, norm, 1e-20, true, u); });
    const Linear gate = bench.weight(WeightFormat::bf16, 384, hidden);
    const Routing routing{bench.rows(count, 6, DType::i32), bench.rows(count, 6)};
    bench.time("route 384", count, 0, [&](int) { bench.ops().route(y, gate, nullptr, 1, 1.5, routing); });
  }
}

// Entries of `rows` rows, scattered over a cache of `entries`.
Tensor scattered_entries(Bench& bench, std::int64_t rows, std::int64_t topk, std::int64_t entries) {
  std::vector<std::int32_t> chosen(static_cast<std::size_t>(rows * topk));
  std::minstd_rand numbers(1);
  for (std::int32_t& entry : chosen) entry = static_cast<std::int32_t>(numbers() % static_cast<unsigned>(entries));
  const Tensor selected = bench.rows(rows, topk, DType::i32);
  bench.ops().memory().upload(std::as_bytes(std::span(chosen)), selected.data);
  return selected;
}

void time_attention(Bench& bench) {
  constexpr int heads = 32, dim = 512, window = 128, topk = 512, pages_most = 1024;
  const Tensor ring = bench.rows(160, 528, DType::u8), pool = bench.rows(pages_most * 64, 288, DType::u8);
  const Tensor pages = bench.rows(1, pages_most, DType::i32), sink = bench.rows(1, heads);
  std::vector<std::int32_t> numbers(pages_most);
  std::iota(numbers.begin(), numbers.end(), 0);
  bench.ops().memory().upload(std::as_bytes(std::span(numbers)), pages.data);
  for (const std::int64_t count : {1, 2, 6, 10, 16, 17, 64, 128, 2048}) {
    const Tensor q = bench.rows(count, heads * dim), out = bench.rows(count, heads * dim);
    const Tensor selected = scattered_entries(bench, count, topk, pages_most * 64);
    std::vector<AttentionRow> rows(static_cast<std::size_t>(count));
    for (AttentionRow& row : rows) {
      row.window = {static_cast<std::byte*>(ring.data), 160, dim, RecordFormat::w8};
      row.window_last = window - 1;
      row.compressed = {static_cast<std::byte*>(pool.data), nullptr, dim, RecordFormat::n4,
                        static_cast<const std::int32_t*>(pages.data)};
      row.selected = selected.row<std::int32_t>(&row - rows.data());
      row.selected_count = topk;
    }
    const auto attend = [&](int) {
      bench.ops().attention({q, rows, static_cast<const float*>(sink.data), heads, dim, true, out});
    };
    bench.time("attention 32 heads, 640 keys", count, 0, attend);
    if (count <= 16) bench.time_in_graph("attention in a graph", count, attend);
  }
}

void time_index(Bench& bench) {
  constexpr int heads = 32, dim = 128, topk = 512;
  for (const std::int64_t entries : {4096, 32768, 600000}) {
    const std::int64_t count_pages = entries / 64 + 1;
    const Tensor pool = bench.rows(count_pages * 64, 68, DType::u8), pages = bench.rows(1, count_pages, DType::i32);
    const Tensor iq = bench.rows(1, heads * dim), weights = bench.rows(1, heads);
    const Tensor selected = bench.rows(1, topk, DType::i32);
    IndexRow row;
    row.keys = {static_cast<std::byte*>(pool.data), nullptr, dim, RecordFormat::x4,
                static_cast<const std::int32_t*>(pages.data)};
    row.visible = static_cast<std::int32_t>(entries);
    row.selected = static_cast<std::int32_t*>(selected.data);
    bench.time("index " + std::to_string(entries), 1, 68.0 * static_cast<double>(entries), [&](int) {
      bench.ops().index_select({iq, weights, {&row, 1}, heads, dim, topk, 8, 2048});
    });
  }
}

void time_experts(Bench& bench) {
  constexpr std::int64_t experts = 96, inter = 1152;
  MoeWeights weights;
  for (std::int64_t e = 0; e < experts; ++e) {
    weights.experts.push_back({bench.weight(WeightFormat::fp4_block32, inter, hidden),
                               bench.weight(WeightFormat::fp4_block32, inter, hidden),
                               {{bench.weight(WeightFormat::fp4_block32, hidden, inter)}, hidden, inter}});
  }
  bench.ops().prepare(weights);
  const double bytes = 3.0 * inter * hidden * (0.5 + 1.0 / 32);
  for (const std::int64_t count : {1, 6, 64}) {
    const Tensor x = bench.rows(count, hidden), out = bench.rows(count, hidden), shares = bench.rows(count, 6);
    const Tensor ids = bench.rows(count, 6, DType::i32);
    std::vector<std::int32_t> chosen;
    for (std::int64_t use = 0; use < count * 6; ++use) chosen.push_back(static_cast<std::int32_t>(use % experts));
    bench.ops().memory().upload(std::as_bytes(std::span(chosen)), ids.data);
    const double used = static_cast<double>(std::min(count * 6, experts));
    bench.time("experts fp4, 6 a row", count, used * bytes, [&](int) {
      bench.ops().moe({x, {ids, shares}, &weights, 10, {true, true, true, true}, out});
    });
  }
}

}  // namespace

int main() {
  auto ops = make_cuda_ops({});
  if (!ops) {
    fmt::print("{}\n", ops.error().message());
    return 1;
  }
  Bench bench(**ops);
  bench.measure_copy();
  time_rows(bench);
  time_attention(bench);
  time_index(bench);
  time_linear(bench, "wq_a 1280x5120 fp8", WeightFormat::fp8_block32, 1280, 5120);
  time_linear(bench, "wkv 512x5120 fp8", WeightFormat::fp8_block32, 512, 5120);
  time_linear(bench, "wq_b 16384x1280 fp8", WeightFormat::fp8_block32, 16384, 1280);
  time_linear(bench, "wo_b 5120x4096 fp8", WeightFormat::fp8_block32, 5120, 4096);
  time_linear(bench, "head 64640x5120 bf16", WeightFormat::bf16, 64640, 5120);
  time_experts(bench);
  return 0;
}
