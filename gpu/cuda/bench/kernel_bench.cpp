// EXL3 products with cold weights, from x to y.
//
// Each figure is the median of graph replays that walk through more than 512 MB of different weights, so that none
// comes from the second-level cache. A call is input transform, product and output transform; `product` starts from
// rotated rows. Weight bytes = inputs * outputs * K / 8, counted once. `public`: the format's own kernels (exllamav3
// 1.4.1, the fastest of its variants, cold weights) on another H200, where known.
#include "gpu/cuda/bench/kernel_bench.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <ostream>
#include <random>
#include <set>
#include <string>

#include "gpu/cuda/bench/product_ground.hpp"
#include "gpu/numeric/bf16.hpp"

namespace tandem::gpu::cuda::bench {
namespace {

constexpr double cold_bytes = 512.0 * (1 << 20);
constexpr int repeats = 9;
constexpr std::int64_t widest = 65536, rows_in_y = 512, rotated_rows = 1024, longest_row = 8192;
constexpr int experts = 384, chosen = 6;  // of the model, and by each row

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

// The ground with random bf16 rows.
struct Ground : ProductGround {
  explicit Ground(Stream& on)
      : ProductGround(on, {.pool = std::size_t{3} << 30,
                           .x = exl3_rows_max * longest_row * sizeof(std::uint16_t),
                           .y = rows_in_y * widest * sizeof(std::uint16_t),
                           .rotated = rotated_rows * longest_row * sizeof(std::uint16_t),
                           .scales = 2 * widest,
                           .rotated_rows = rotated_rows}) {
    if (!stream.is_sound()) return;
    std::mt19937 random(1);
    std::normal_distribution<float> normal;
    std::vector<std::uint16_t> rows(static_cast<std::size_t>(exl3_rows_max * longest_row));
    for (auto& value : rows) value = float_to_bf16(normal(random));
    send(x, rows);
  }

  Exl3Rows in(int columns) const { return {x.as<void>(), Exl3Element::bf16, columns, columns, false}; }
  Exl3Rows out(int columns) const { return {y.as<void>(), Exl3Element::bf16, columns, columns, false}; }
};

struct Figure {
  std::string name;
  int rows = 0;
  double us = 0, product_us = 0, bytes = 0;
};

class Report {
 public:
  Report(std::ostream& out, const CardLimits& limits, bool json) : out_(out), limits_(limits), json_(json) {
    write_limits(out, limits, json);
    if (json) return;
    out << "| matrix | inputs x outputs | K | M | us a call | product alone | GB/s | of copy | of decode | of the "
           "nearer | "
           "public / ours |\n|---|---|---|---|---|---|---|---|---|---|---|\n";
  }

  void add(const Case& c, const Figure& f) const {
    const double rate = f.us == 0 ? 0 : f.bytes / f.us * 1e6;
    const double of_copy = rate / limits_.copy, of_decode = rate / limits_.decode[static_cast<std::size_t>(c.bits)];
    if (json_) {
      out_ << fmt::format(
          R"({{"bench":"kernels","matrix":"{}","inputs":{},"outputs":{},"bits":{},"rows":{},"us":{:.3f},)"
          R"("product_us":{:.3f},"bytes":{:.0f},"bytes_per_s":{:.4g},"of_copy":{:.4f},"of_decode":{:.4f},)"
          R"("of_nearer":{:.4f},"public_us":{}}})"
          "\n",
          f.name, c.inputs, c.outputs, c.bits, f.rows, f.us, f.product_us, f.bytes, rate, of_copy, of_decode,
          rate / limits_.of(c.bits), c.public_us > 0 ? fmt::format("{}", c.public_us) : "null");
    } else {
      out_ << fmt::format(
          "| {:16} | {:5} x {:5} | {} | {:2} | {:8.2f} | {:8.2f} | {:5.0f} | {:3.0f}% | {:3.0f}% | "
          "{:3.0f}% | {} |\n",
          f.name, c.inputs, c.outputs, c.bits, f.rows, f.us, f.product_us, rate / 1e9, 100 * of_copy, 100 * of_decode,
          100 * rate / limits_.of(c.bits), c.public_us > 0 ? fmt::format("{:.1f}x", c.public_us / f.us) : "");
    }
    out_ << std::flush;
  }

 private:
  std::ostream& out_;
  const CardLimits& limits_;
  bool json_;
};

Figure time_single(const Ground& ground, const Case& c, int rows) {
  const Exl3Shape shape{c.inputs, c.outputs, c.bits, Exl3Codebook::mul1};
  const auto bytes = static_cast<double>(exl3_bytes(c.inputs, c.outputs, c.bits));
  const int calls = std::max(4, static_cast<int>(cold_bytes / bytes) + 1);
  Stream& stream = ground.stream;
  const auto all = [&](bool rotates) {
    for (int i = 0; i < calls; ++i) {
      const Exl3Matrix matrix = ground.matrix(shape, i);
      const Exl3Rows x = ground.in(c.inputs), y = ground.out(c.outputs);
      stream.check(rotates ? exl3_multiply(stream.handle(), matrix, x, y, rows, ground.rotation())
                           : exl3_multiply_rotated(stream.handle(), matrix, ground.rotation(), y, rows),
                   "product");
    }
  };
  return {c.name, rows, replay_ms(stream, repeats, [&] { all(true); }) * 1e3 / calls,
          replay_ms(stream, repeats, [&] { all(false); }) * 1e3 / calls, bytes};
}

// One routing of `rows` rows to their experts, as a routing kernel would leave its lists.
class Routing {
 public:
  // `matrices` of every expert: gate and up are two.
  Routing(const Ground& ground, int rows, int matrices, std::mt19937& random)
      : groups_(ground.stream, bytes_for(rows, matrices) * sizeof(Exl3Group)),
        matrix_of_row_(ground.stream, bytes_for(rows, matrices) * sizeof(std::int32_t)),
        source_of_row_(ground.stream, bytes_for(rows, matrices) * sizeof(std::int32_t)) {
    std::vector<std::vector<std::int32_t>> members(experts);
    for (int row = 0; row < rows; ++row) {
      std::set<std::size_t> mine;
      while (mine.size() < chosen) mine.insert(random() % experts);
      for (const std::size_t expert : mine) members[expert].push_back(row);
    }
    std::vector<Exl3Group> groups;
    std::vector<std::int32_t> matrix_of_row, source_of_row;
    for (int expert = 0; expert < matrices * experts; ++expert) {
      const auto& sources = members[static_cast<std::size_t>(expert / matrices)];
      if (sources.empty()) continue;
      const auto count = static_cast<std::int32_t>(sources.size());
      groups.push_back({expert, static_cast<std::int32_t>(matrix_of_row.size()), count});
      matrix_of_row.insert(matrix_of_row.end(), sources.size(), expert);
      source_of_row.insert(source_of_row.end(), sources.begin(), sources.end());
    }
    ground.send(groups_, groups);
    ground.send(matrix_of_row_, matrix_of_row);
    ground.send(source_of_row_, source_of_row);
    count_ = static_cast<int>(groups.size());
    rows_ = static_cast<int>(matrix_of_row.size());
  }

  Exl3Groups lists(const Exl3Matrix* table, int rows_most) const {
    return {table,     groups_.as<Exl3Group>(),           count_,
            rows_most, matrix_of_row_.as<std::int32_t>(), source_of_row_.as<std::int32_t>()};
  }
  int groups() const { return count_; }
  int rows() const { return rows_; }

 private:
  static std::size_t bytes_for(int rows, int matrices) { return static_cast<std::size_t>(rows * chosen * matrices); }

  DeviceBlock groups_, matrix_of_row_, source_of_row_;
  int count_ = 0, rows_ = 0;
};

Figure time_experts(const Ground& ground, const Case& c, int rows, int matrices) {
  constexpr int routings = 16;
  const Exl3Shape shape{c.inputs, c.outputs, c.bits, Exl3Codebook::mul1};
  Stream& stream = ground.stream;
  std::mt19937 random(7);
  std::vector<Exl3Matrix> table;
  for (int i = 0; i < experts * matrices; ++i) table.push_back(ground.matrix(shape, i));
  const DeviceBlock device_table(stream, table.size() * sizeof(Exl3Matrix));
  ground.send(device_table, table);
  std::vector<Routing> all;
  double bytes = 0;
  for (int i = 0; i < routings; ++i) {
    all.emplace_back(ground, rows, matrices, random);
    bytes += all.back().groups() * static_cast<double>(exl3_bytes(c.inputs, c.outputs, c.bits)) / routings;
  }
  const auto launch = [&](bool rotates) {
    for (const Routing& routing : all) {
      const Exl3Groups groups = routing.lists(device_table.as<Exl3Matrix>(), rows);
      if (rotates) {
        stream.check(
            exl3_rotate_groups(stream.handle(), shape, groups, ground.in(c.inputs), routing.rows(), ground.rotation()),
            "rotation");
      }
      stream.check(exl3_multiply_groups(stream.handle(), shape, groups, ground.rotation(), {ground.out(c.outputs), {}},
                                        routing.rows()),
                   "products");
    }
  };
  return {matrices == 2 ? "experts gate+up" : "experts down", rows,
          replay_ms(stream, repeats, [&] { launch(true); }) * 1e3 / routings,
          replay_ms(stream, repeats, [&] { launch(false); }) * 1e3 / routings, bytes};
}

}  // namespace

Result<void> bench_kernels(const KernelBenchOptions& options, std::ostream& out) {
  auto stream = Stream::open(options.device);
  if (!stream) return stream.error();
  const Ground ground(**stream);
  if (auto ok = (*stream)->wait(); !ok) return ok;
  const Report report(out, ground.limits, options.json);
  for (const Case& c : cases) {
    if (options.experts_only) break;
    for (const int rows : options.rows) report.add(c, time_single(ground, c, rows));
  }
  for (const int bits : {2, 3}) {
    for (const int rows : options.rows) {
      const Case up{"", 5120, 1152, bits, 0}, down{"", 1152, 5120, bits, 0};
      report.add(up, time_experts(ground, up, rows, 2));
      report.add(down, time_experts(ground, down, rows, 1));
    }
  }
  return (*stream)->wait();
}

}  // namespace tandem::gpu::cuda::bench
