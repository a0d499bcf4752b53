// EXL3 products of many rows, from x to y: what the backend chooses, and each way by itself.
//
// Each figure is the median of graph replays over four sets of different weights. Operations are two a weight and row;
// the limit is the matrix instruction alone, in the same run. `rotation` is the part before the products.
#include "gpu/cuda/bench/chunk_bench.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <ostream>
#include <random>
#include <set>
#include <string>
#include <utility>

#include "gpu/cuda/bench/product_ground.hpp"

namespace tandem::gpu::cuda::bench {
namespace {

constexpr int repeats = 5, calls = 4;
constexpr std::int64_t rows_most = 2048, widest_x = 5120, widest_y = 16384, members_most = 4;
constexpr int experts = 384, chosen = 6;  // of the model, and by each row
constexpr std::int64_t uses_most = 2 * chosen * rows_most;

struct Case {
  const char* name;
  Exl3Shape shape;
  int members;
};

constexpr Exl3Codebook mul1 = Exl3Codebook::mul1;
constexpr Case cases[] = {{"wq_a", {5120, 1280, 5, mul1}, 1},       {"wq_b", {1280, 16384, 5, mul1}, 1},
                          {"wkv", {5120, 512, 5, mul1}, 1},         {"wo_a", {4096, 1024, 5, mul1}, 4},
                          {"wo_b", {4096, 5120, 5, mul1}, 1},       {"shared up", {5120, 1152, 5, mul1}, 2},
                          {"shared down", {1152, 5120, 4, mul1}, 1}};

// The ground with random f32 rows.
struct Ground : ProductGround {
  explicit Ground(Stream& on)
      : ProductGround(on, {.pool = std::size_t{2} << 30,
                           .x = rows_most * widest_x * sizeof(float),
                           .y = uses_most * widest_x * sizeof(float),
                           .rotated = uses_most * widest_x * sizeof(std::uint16_t),
                           .scales = widest_y,
                           .rotated_rows = uses_most}) {
    if (!stream.is_sound()) return;
    std::mt19937 random(1);
    std::normal_distribution<float> normal;
    std::vector<float> values(rows_most * widest_x);
    for (float& value : values) value = normal(random);
    send(x, values);
  }

  static Exl3Rows rows_at(float* data, int columns) { return {data, Exl3Element::f32, columns, columns, false}; }

  // The members of call `index`, from row `first` on.
  Exl3Set set(const Case& c, int rows, int index, int first = 0) const {
    Exl3Set result;
    result.count = c.members;
    for (int i = 0; i < c.members; ++i) {
      const std::int64_t y_row = std::int64_t{i} * rows + first;
      result.members[i] = {matrix(c.shape, std::int64_t{index} * c.members + i),
                           rows_at(x.as<float>() + std::int64_t{first} * c.shape.inputs, c.shape.inputs),
                           rows_at(y.as<float>() + y_row * c.shape.outputs, c.shape.outputs)};
    }
    return result;
  }
};

// Microseconds of one of `calls` calls.
template <class Call>
double time_us(const Ground& ground, const Call& call) {
  const auto all = [&] {
    for (int i = 0; i < calls; ++i) call(i);
  };
  return replay_ms(ground.stream, repeats, all) * 1e3 / calls;
}

void write_case(const Ground& ground, const Case& c, int rows, std::ostream& out) {
  Stream& stream = ground.stream;
  const auto whole = time_us(ground, [&](int i) {
    stream.check(exl3_multiply_set(stream.handle(), ground.set(c, rows, i), rows, ground.rotation()), "chunk");
  });
  const auto rotation = time_us(ground, [&](int i) {
    stream.check(exl3_rotate_set(stream.handle(), ground.set(c, rows, i), rows, ground.rotation()), "rotation");
  });
  const auto in_blocks = [&](int block_rows) {
    return time_us(ground, [&](int i) {
      const Exl3Set set = ground.set(c, rows, i);
      stream.check(exl3_multiply_blocks(stream.handle(), set, ground.rotation(), rows, block_rows), "blocks");
    });
  };
  const auto steps = time_us(ground, [&](int i) {
    for (int first = 0; first < rows; first += exl3_rows_max) {
      const int part = std::min(exl3_rows_max, rows - first);
      stream.check(exl3_multiply_set(stream.handle(), ground.set(c, rows, i, first), part, ground.rotation()), "steps");
    }
  });
  const double operations = 2.0 * c.shape.inputs * c.shape.outputs * c.members * rows;
  const double rate = operations / whole * 1e6;
  out << fmt::format(
             "{:12} {} x {:5} x {:5} K={} {:5} rows {:9.1f} us  {:6.1f} TFLOP/s, {:4.1f} % of mma | rotation {:.1f}, "
             "blocks of {} {:.1f}, of 64 {:.1f}, 64 rows at a time {:.1f} us\n",
             c.name, c.members, c.shape.inputs, c.shape.outputs, c.shape.bits, rows, whole, rate / 1e12,
             100 * rate / ground.limits.multiply, rotation, exl3_block_rows(c.shape),
             in_blocks(exl3_block_rows(c.shape)), in_blocks(exl3_rows_max), steps)
      << std::flush;
}

// wq_a and wkv, which have the same rows: in one launch, and one after the other.
void write_pair(const Ground& ground, int rows, std::ostream& out) {
  constexpr Exl3Shape shapes[] = {{5120, 1280, 5, mul1}, {5120, 512, 5, mul1}};
  const auto set_of = [&](int index) {
    Exl3Set set;
    set.count = 2;
    float* y = ground.y.as<float>();
    for (int i = 0; i < 2; ++i) {
      const Exl3Shape& shape = shapes[i];
      constexpr int behind_others = 16;  // of this shape: where those of the first one end
      set.members[i] = {ground.matrix(shape, behind_others * i + index),
                        Ground::rows_at(ground.x.as<float>(), shape.inputs), Ground::rows_at(y, shape.outputs)};
      y += std::int64_t{rows} * shape.outputs;
    }
    return set;
  };
  if (!exl3_accepts_pair(set_of(0), rows)) return;
  Stream& stream = ground.stream;
  const auto together = time_us(ground, [&](int i) {
    stream.check(exl3_multiply_pair(stream.handle(), set_of(i), rows, ground.rotation()), "pair");
  });
  const auto in_turn = time_us(ground, [&](int i) {
    const Exl3Set set = set_of(i);
    for (const Exl3Member& one : {set.members[0], set.members[1]}) {
      stream.check(exl3_multiply(stream.handle(), one.matrix, one.x, one.y, rows, ground.rotation()), "one of two");
    }
  });
  out << fmt::format("wq_a with wkv {:5} rows {:9.1f} us | one after the other {:.1f} us\n", rows, together, in_turn)
      << std::flush;
}

// One routing of a chunk's rows to their experts, as the plan leaves its lists: groups of at most `most` rows.
struct Routing {
  std::vector<Exl3Group> groups;
  std::vector<std::int32_t> matrix_of_row, source_of_row, row_of_use;

  Routing(int rows, int most) {
    std::mt19937 random(7);
    std::vector<std::vector<std::int32_t>> members(experts);
    for (int row = 0; row < rows; ++row) {
      std::set<std::size_t> mine;
      while (mine.size() < chosen) mine.insert(random() % experts);
      for (const std::size_t expert : mine) members[expert].push_back(row);
    }
    for (int expert = 0; expert < experts; ++expert) {
      const auto& sources = members[static_cast<std::size_t>(expert)];
      const auto count = static_cast<std::int32_t>(sources.size());
      for (std::int32_t done = 0; done < count; done += most) {
        groups.push_back(
            {expert, static_cast<std::int32_t>(matrix_of_row.size()) + done, std::min(most, count - done)});
      }
      matrix_of_row.insert(matrix_of_row.end(), sources.size(), expert);
      source_of_row.insert(source_of_row.end(), sources.begin(), sources.end());
    }
    std::vector<int> found(static_cast<std::size_t>(rows));
    row_of_use.resize(source_of_row.size());
    for (std::size_t i = 0; i < source_of_row.size(); ++i) {
      const auto source = static_cast<std::size_t>(source_of_row[i]);
      row_of_use[source * chosen + static_cast<std::size_t>(found[source]++)] = static_cast<std::int32_t>(i);
    }
  }
};

// Gate and up (two tables) or down of one layer's experts, by the kernels of an order.
double time_experts(const Ground& ground, const Exl3Shape& shape, int rows, int tables, Exl3Order order) {
  const int most = exl3_group_rows(order);
  const Routing routing(rows, most);
  Stream& stream = ground.stream;
  std::vector<Exl3Matrix> matrices;
  for (int i = 0; i < experts * tables; ++i) matrices.push_back(ground.matrix(shape, i));
  const DeviceBlock table(stream, matrices.size() * sizeof(Exl3Matrix)),
      groups(stream, routing.groups.size() * sizeof(Exl3Group)),
      matrix_of_row(stream, routing.matrix_of_row.size() * sizeof(std::int32_t)),
      source_of_row(stream, routing.source_of_row.size() * sizeof(std::int32_t)),
      row_of_use(stream, routing.row_of_use.size() * sizeof(std::int32_t));
  ground.send(table, matrices);
  ground.send(groups, routing.groups);
  ground.send(matrix_of_row, routing.matrix_of_row);
  ground.send(source_of_row, routing.source_of_row);
  ground.send(row_of_use, routing.row_of_use);
  Exl3Groups lists;
  lists.table = table.as<Exl3Matrix>();
  lists.second = tables == 2 ? table.as<Exl3Matrix>() + experts : nullptr;
  lists.groups = groups.as<Exl3Group>();
  lists.count = static_cast<std::int32_t>(routing.groups.size());
  lists.rows_most = std::min(rows, most);
  lists.matrix_of_row = matrix_of_row.as<std::int32_t>();
  lists.source_of_row = source_of_row.as<std::int32_t>();
  lists.row_of_use = row_of_use.as<std::int32_t>();
  lists.slots = chosen;
  const int uses = rows * chosen;
  const Exl3Rows x = Ground::rows_at(ground.x.as<float>(), shape.inputs);
  float* y = ground.y.as<float>();
  const Exl3Products products{Ground::rows_at(y, shape.outputs),
                              Ground::rows_at(y + std::int64_t{uses} * shape.outputs, shape.outputs)};
  Exl3Rotated rotated = ground.rotation();
  rotated.order = order;
  return time_us(ground, [&](int) {
    stream.check(exl3_rotate_groups(stream.handle(), shape, lists, x, uses, rotated), "rotation");
    stream.check(exl3_multiply_groups(stream.handle(), shape, lists, rotated, products, uses), "experts");
  });
}

void write_experts(const Ground& ground, int bits, int rows, std::ostream& out) {
  const Exl3Shape up{5120, 1152, bits, mul1}, down{1152, 5120, bits, mul1};
  for (const auto& [shape, tables] : {std::pair(up, 2), std::pair(down, 1)}) {
    const double us = time_experts(ground, shape, rows, tables, exl3_group_order(shape, rows * chosen));
    const double before = time_experts(ground, shape, rows, tables, Exl3Order::lanes);
    const double weights = 1.0 * experts * tables * shape.inputs * shape.outputs;
    const double rate = 2.0 * rows * chosen * tables * shape.inputs * shape.outputs / us * 1e6;
    const double of_decode = weights * bits / 8 / us * 1e6 / ground.limits.decode[static_cast<std::size_t>(bits)];
    out << fmt::format(
               "experts {:4} {} x {:5} x {:5} K={} {:5} rows {:9.1f} us  {:6.1f} TFLOP/s, {:4.1f} % of mma, {:4.1f} % "
               "of "
               "one decode | by the kernels of all cards {:.1f} us\n",
               tables == 2 ? "up" : "down", tables, shape.inputs, shape.outputs, bits, rows, us, rate / 1e12,
               100 * rate / ground.limits.multiply, 100 * of_decode, before)
        << std::flush;
  }
}

}  // namespace

Result<void> bench_chunks(const ChunkBenchOptions& options, std::ostream& out) {
  auto stream = Stream::open(options.device);
  if (!stream) return stream.error();
  const Ground ground(**stream);
  if (auto ok = (*stream)->wait(); !ok) return ok;
  write_limits(out, ground.limits, false);
  for (const int rows : options.rows) {
    if (rows < 1 || rows > rows_most) {
      return Error{ErrorCode::invalid_argument, "bench chunks", std::to_string(rows) + " rows", "1 to 2048"};
    }
    for (const Case& c : cases) write_case(ground, c, rows, out);
    write_pair(ground, rows, out);
    for (const int bits : {2, 3}) write_experts(ground, bits, rows, out);
  }
  return (*stream)->wait();
}

}  // namespace tandem::gpu::cuda::bench
