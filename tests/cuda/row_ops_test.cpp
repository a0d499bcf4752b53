// Norms, copies, sums, rotation, pooling, hyper-connections, the Engram gate and the router, bit by bit.
#include <boost/test/unit_test.hpp>

#include <limits>

#include "gpu/config.hpp"
#include "gpu/rope_table.hpp"
#include "tests/cuda/device_fixture.hpp"

using namespace tandem::gpu;
using namespace tandem::gpu::test;

namespace {

struct Size {
  std::int64_t rows, cols;
};
constexpr Size sizes[] = {{1, 1}, {1, 5120}, {2, 33}, {3, 512}, {5, 1279}, {7, 20480}};

ModelConfig small_config(std::int64_t hidden) {
  ModelConfig config;
  config.hidden = static_cast<decltype(config.hidden)>(hidden);
  config.hc_mult = 4;
  config.hc_sinkhorn_iters = 20;
  config.hc_eps = 1e-6;
  config.norm_eps = 1e-20;
  return config;
}

void check_hyper_connections(std::int64_t hidden, std::int64_t rows) {
  Random random(17);
  const ModelConfig config = small_config(hidden);
  HyperConnection weights, device_weights;
  weights.fn = dense(random.floats(24 * 4 * hidden, 0.02F), 24);
  weights.base = dense(random.floats(24), 1);
  weights.scale = dense(random.floats(3), 1);
  device_weights = {placed(weights.fn), placed(weights.base), placed(weights.scale)};
  Floats streams = random.activations(rows * 4 * hidden), y = random.activations(rows * hidden);
  Floats pre(static_cast<std::size_t>(rows * 4)), post(pre.size()), comb(pre.size() * 4), u(y.size());
  const HcMix mix{matrix(pre, rows), matrix(post, rows), matrix(comb, rows)};
  const DeviceMatrix device_streams(streams, rows), device_y(y, rows), device_u(rows, hidden);
  const DeviceMatrix device_pre(rows, 4), device_post(rows, 4), device_comb(rows, 16);
  const HcMix device_mix{device_pre, device_post, device_comb};
  backends().cpu->mhc_mix(matrix(streams, rows), weights, config, mix);
  backends().cuda->mhc_mix(device_streams, device_weights, config, device_mix);
  check_same("pre", pre, device_pre.floats());
  check_same("post", post, device_post.floats());
  check_same("comb", comb, device_comb.floats());
  backends().cpu->mhc_collapse(matrix(streams, rows), mix.pre, true, matrix(u, rows));
  backends().cuda->mhc_collapse(device_streams, device_mix.pre, true, device_u);
  check_same("collapse", u, device_u.floats());
  backends().cpu->mhc_expand(matrix(streams, rows), matrix(y, rows), mix, true);
  backends().cuda->mhc_expand(device_streams, device_y, device_mix, true);
  check_same("expand", streams, device_streams.floats());
}

}  // namespace

BOOST_AUTO_TEST_SUITE(row_ops)

BOOST_AUTO_TEST_CASE(norms_and_roundings_equal_the_cpu) {
  if (!has_device()) return;
  Random random(11);
  for (const Size size : sizes) {
    const std::string at = std::to_string(size.rows) + "x" + std::to_string(size.cols);
    for (const bool round : {true, false}) {
      Floats x = random.floats(size.rows * size.cols), y(x.size());
      const DenseF32 weight = dense(random.floats(size.cols), 1);
      const DeviceMatrix device_x(x, size.rows), device_y(size.rows, size.cols);
      backends().cpu->rmsnorm(matrix(x, size.rows), weight, 1e-20, round, matrix(y, size.rows));
      backends().cuda->rmsnorm(device_x, placed(weight), 1e-20, round, device_y);
      check_same("rmsnorm " + at, y, device_y.floats());

      backends().cpu->scale(matrix(x, size.rows), 0.37F, round);
      backends().cuda->scale(device_x, 0.37F, round);
      check_same("scale " + at, x, device_x.floats());
    }
    Floats x = random.floats(size.rows * size.cols);
    x.front() = std::numeric_limits<float>::quiet_NaN();
    x.back() = std::numeric_limits<float>::infinity();
    const DeviceMatrix device_x(x, size.rows);
    backends().cpu->round_bf16(matrix(x, size.rows));
    backends().cuda->round_bf16(device_x);
    check_same("round " + at, x, device_x.floats());
  }
}

BOOST_AUTO_TEST_CASE(sums_of_blocks_means_and_the_best_column_equal_the_cpu) {
  if (!has_device()) return;
  Random random(12);
  for (const Size size : {Size{1, 1}, {1, 4096}, {3, 257}, {6, 1000}}) {
    Floats parts = random.floats(3 * size.rows * size.cols), sum(static_cast<std::size_t>(size.rows * size.cols));
    const DeviceMatrix device_parts(parts, 3 * size.rows), device_sum(size.rows, size.cols);
    backends().cpu->sum_blocks(matrix(parts, 3 * size.rows), true, matrix(sum, size.rows));
    backends().cuda->sum_blocks(device_parts, true, device_sum);
    check_same("sum of blocks", sum, device_sum.floats());

    Floats streams = random.activations(size.rows * size.cols * 4), mean(sum.size());
    const DeviceMatrix device_streams(streams, size.rows), device_mean(size.rows, size.cols);
    backends().cpu->mean_streams(matrix(streams, size.rows), 4, true, matrix(mean, size.rows));
    backends().cuda->mean_streams(device_streams, 4, true, device_mean);
    check_same("mean of streams", mean, device_mean.floats());

    Floats a = random.activations(size.rows * size.cols), b(a.size(), 0.5F), sums(a.size());  // bf16 values tie often
    std::vector<BestColumn> expected(static_cast<std::size_t>(size.rows)), found(expected.size());
    const DeviceMatrix device_a(a, size.rows), device_b(b, size.rows), device_sums(size.rows, size.cols);
    BOOST_TEST(backends()
                   .cpu->best_of_sum(matrix(a, size.rows), matrix(b, size.rows), matrix(sums, size.rows), expected)
                   .has_value());
    BOOST_TEST(backends().cuda->best_of_sum(device_a, device_b, device_sums, found).has_value());
    check_same("sums", sums, device_sums.floats());
    for (std::size_t row = 0; row < expected.size(); ++row) {
      BOOST_TEST(found[row].column == expected[row].column);
      BOOST_TEST(found[row].value == expected[row].value);
    }
  }
}

BOOST_AUTO_TEST_CASE(copies_and_cleared_tensors_hold_what_they_should) {
  if (!has_device()) return;
  Random random(13);
  const Floats x = random.floats(6 * 37);
  const DeviceMatrix from(x, 6), to(6, 37);
  std::vector<RowMove> moves;
  for (std::int64_t row = 0; row < 6; ++row)
    moves.push_back({from.tensor().row<float>(row), to.tensor().row<float>(5 - row)});
  backends().cuda->move_rows(moves, 37);
  Floats reversed;
  for (int row = 5; row >= 0; --row) reversed.insert(reversed.end(), x.begin() + row * 37, x.begin() + (row + 1) * 37);
  check_same("moves", reversed, to.floats());
  backends().cuda->clear(to);
  check_same("cleared", Floats(x.size()), to.floats());
  backends().cuda->move_rows({}, 37);
  BOOST_TEST(backends().cuda->wait().has_value());
}

BOOST_AUTO_TEST_CASE(rows_of_a_table_are_gathered_exactly) {
  if (!has_device()) return;
  Random random(14);
  const Linear table = random_linear(random, WeightFormat::bf16, 50, 96);
  const std::vector<std::int32_t> ids{49, 0, 7, 7};
  Floats rows(4 * 96);
  const DeviceMatrix device_rows(4, 96);
  backends().cpu->gather_rows(table, ids, matrix(rows, 4));
  backends().cuda->gather_rows(placed(table), ids, device_rows);
  check_same("gather", rows, device_rows.floats());
}

BOOST_AUTO_TEST_CASE(rotations_equal_the_cpu_at_every_position) {
  if (!has_device()) return;
  Random random(15);
  for (const int heads : {1, 3}) {
    for (const bool inverse : {false, true}) {
      for (const bool round : {false, true}) {
        const std::vector<std::int64_t> positions{0, 1, 511, 4000};
        RopeTable table(RopeConfig{}, 64, RopeKind::compressed, 4096), device_table = table;
        device_table.place(backends().cuda->memory());
        Floats x = random.activations(4 * heads * 128);
        const DeviceMatrix device_x(x, 4);
        backends().cpu->rope(matrix(x, 4), heads, positions, table.view(), inverse, round);
        backends().cuda->rope(device_x, heads, positions, device_table.view(), inverse, round);
        check_same("rope", x, device_x.floats());
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(pooled_pairs_equal_the_cpu) {
  if (!has_device()) return;
  Random random(16);
  for (const Size size : {Size{1, 1}, {4, 512}}) {
    std::vector<Floats> in;
    for (const float spread : {1.0F, 20.0F, 1.0F, 20.0F}) in.push_back(random.floats(size.rows * size.cols, spread));
    Floats z(in[0].size());
    backends().cpu->pool_pair(matrix(in[0], size.rows), matrix(in[1], size.rows), matrix(in[2], size.rows),
                              matrix(in[3], size.rows), false, matrix(z, size.rows));
    const DeviceMatrix ka(in[0], size.rows), ga(in[1], size.rows), kb(in[2], size.rows), gb(in[3], size.rows);
    const DeviceMatrix device_z(size.rows, size.cols);
    backends().cuda->pool_pair(ka, ga, kb, gb, false, device_z);
    check_same("pool pair", z, device_z.floats());
  }
}

BOOST_AUTO_TEST_CASE(hyper_connections_equal_the_cpu) {
  if (!has_device()) return;
  for (const std::int64_t hidden : {1, 256, 5120}) {
    for (const std::int64_t rows : {1, 3}) check_hyper_connections(hidden, rows);
  }
  for (const std::int64_t rows : {31, 32, 63, 64, 65, 255, 256, 273}) check_hyper_connections(256, rows);
}

BOOST_AUTO_TEST_CASE(the_engram_gate_equals_the_cpu_and_leaves_image_rows_alone) {
  if (!has_device()) return;
  Random random(18);
  for (const std::int64_t hidden : {4, 256}) {
    const ModelConfig config = small_config(hidden);
    EngramWeights weights, device_weights;
    weights.q_weight = dense(random.floats(4 * hidden), 4);
    weights.k_weight = dense(random.floats(4 * hidden), 4);
    device_weights.q_weight = placed(weights.q_weight);
    device_weights.k_weight = placed(weights.k_weight);
    Floats streams = random.activations(3 * 4 * hidden), kv = random.activations(3 * 5 * hidden);
    const std::vector<std::uint8_t> keep{1, 0, 1};
    const DeviceMatrix device_streams(streams, 3), device_kv(kv, 3);
    backends().cpu->engram_gate(matrix(streams, 3), matrix(kv, 3), weights, keep.data(), config, true);
    backends().cuda->engram_gate(device_streams, device_kv, device_weights, keep.data(), config, true);
    check_same("engram gate", streams, device_streams.floats());
  }
}

BOOST_AUTO_TEST_CASE(the_router_chooses_the_cpus_experts) {
  if (!has_device()) return;
  Random random(19);
  for (const std::int64_t experts : {6, 8, 384, 520}) {
    for (const bool biased : {false, true}) {
      const std::int64_t rows = 5, slots = experts == 384 ? 6 : 2;
      const Linear gate = random_linear(random, WeightFormat::bf16, experts, 256);
      const DenseF32 bias = dense(random.floats(experts, 0.1F), 1), device_bias = placed(bias);
      Floats x = random.activations(rows * 256), weights(static_cast<std::size_t>(rows * slots));
      std::vector<std::int32_t> ids(weights.size());
      const Routing routing{Tensor::i32(ids.data(), rows, slots), matrix(weights, rows)};
      const DeviceMatrix device_x(x, rows), device_weights(rows, slots), device_ids(rows, slots, DType::i32);
      backends().cpu->route(matrix(x, rows), gate, biased ? bias.data() : nullptr, 1.0, 1.5, routing);
      backends().cuda->route(device_x, placed(gate), biased ? device_bias.data() : nullptr, 1.0, 1.5,
                             {device_ids, device_weights});
      BOOST_TEST(device_ids.ints() == ids, boost::test_tools::per_element());
      // exp and log1p of the two mathematical libraries may differ in the last bit.
      const Floats found = device_weights.floats();
      for (std::size_t i = 0; i < weights.size(); ++i)
        BOOST_TEST(std::abs(found[i] - weights[i]) <= 4e-7F * weights[i]);
    }
  }
}

BOOST_AUTO_TEST_SUITE_END()
