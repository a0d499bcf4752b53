// The CPU backend's operators against the golden ones, and the rules that make a row's bits independent of its company.
#include <boost/test/unit_test.hpp>

#include <limits>
#include <numeric>
#include <random>

#include "gpu/cpu/cpu_ops.hpp"
#include "gpu/cpu/mhc_ops.hpp"
#include "gpu/numeric/minifloat.hpp"
#include "gpu/rope_table.hpp"
#include "tests/gpu/golden_ops_fixture.hpp"

using namespace tandem::gpu;
using namespace tandem::gpu::test;

BOOST_AUTO_TEST_SUITE(ops)

namespace {

const GoldenFile& ops_file() {
  static const GoldenFile file("ops.safetensors");
  return file;
}

const GoldenFile& first_shard() {
  static const GoldenFile file("ckpt/model-00001-of-00005.safetensors");
  return file;
}

Tensor matrix(std::vector<float>& values, std::int64_t rows) {
  return Tensor::f32(values.data(), rows, static_cast<std::int64_t>(values.size()) / rows);
}

const ModelConfig& config() {
  static const ModelConfig value = ModelConfig::load(golden_folder() / "ckpt").value();
  return value;
}

}  // namespace

BOOST_AUTO_TEST_CASE(rope_frequencies_and_tables_have_the_golden_bits) {
  const auto positions = ops_file().raw<std::int32_t>("rope.positions");
  const RopeConfig rope;
  BOOST_TEST(rope_frequencies(rope, 64, RopeKind::plain) == ops_file().floats("rope.plain.base_freq"));
  BOOST_TEST(rope_frequencies(rope, 64, RopeKind::compressed) == ops_file().floats("rope.yarn.freq"));
  const std::int64_t count = *std::max_element(positions.begin(), positions.end()) + 1;
  for (const RopeKind kind : {RopeKind::plain, RopeKind::compressed}) {
    const RopeTable table(rope, 64, kind, count);
    const auto golden = ops_file().floats(kind == RopeKind::plain ? "rope.plain" : "rope.yarn");
    const RopeView view = table.view();
    bool equal = true;
    for (std::size_t i = 0; i < golden.size() / 2; ++i) {
      const std::size_t at = static_cast<std::size_t>(positions[i / 32]) * 32 + i % 32;
      equal = equal && view.cos[at] == golden[2 * i] && view.sin[at] == golden[2 * i + 1];
    }
    BOOST_TEST(equal);
  }
}

BOOST_AUTO_TEST_CASE(rotation_and_its_inverse_equal_the_golden_rows) {
  const auto ops = make_cpu_ops(2);
  const auto positions32 = ops_file().raw<std::int32_t>("rope.positions");
  const std::vector<std::int64_t> positions(positions32.begin(), positions32.end());
  const auto rows = static_cast<std::int64_t>(positions.size());
  for (const RopeKind kind : {RopeKind::plain, RopeKind::compressed}) {
    const std::string name = kind == RopeKind::plain ? "rope.plain" : "rope.yarn";
    const RopeTable table(RopeConfig{}, 64, kind, *std::max_element(positions.begin(), positions.end()) + 1);
    auto forward = ops_file().floats(name + ".x"), back = forward;
    ops->rope(matrix(forward, rows), 1, positions, table.view(), false, true);
    ops->rope(matrix(back, rows), 1, positions, table.view(), true, true);
    BOOST_TEST(relative_l2(forward, ops_file().floats(name + ".rotated")) < 1e-4);
    BOOST_TEST(relative_l2(back, ops_file().floats(name + ".inverse")) < 1e-4);
  }
}

BOOST_AUTO_TEST_CASE(rmsnorm_equals_the_golden_rows) {
  const auto ops = make_cpu_ops(2);
  auto x = ops_file().floats("rmsnorm.x");
  std::vector<float> y(x.size());
  const DenseF32 weight = dense_of(first_shard().floats("layers.0.attn_norm.weight"), 1, 256);
  ops->rmsnorm(matrix(x, 6), weight, 1e-20, true, matrix(y, 6));
  BOOST_TEST(relative_l2(y, ops_file().floats("rmsnorm.y")) < 1e-4);
}

BOOST_AUTO_TEST_CASE(sinkhorn_rounds_are_within_1e_6) {
  auto raw = ops_file().floats("sinkhorn.mix"), scale = ops_file().floats("sinkhorn.scale"),
       base = ops_file().floats("sinkhorn.base");
  std::vector<float> pre(64 * 4), post(64 * 4), comb(64 * 16);
  for (std::size_t t = 0; t < 64; ++t) {
    split_mix({raw.data() + t * 24, scale.data(), base.data()},
              {pre.data() + t * 4, post.data() + t * 4, comb.data() + t * 16});
  }
  BOOST_TEST(largest_difference(pre, ops_file().floats("sinkhorn.pre")) < 1e-6);
  BOOST_TEST(largest_difference(post, ops_file().floats("sinkhorn.post")) < 1e-6);
  BOOST_TEST(largest_difference(comb, ops_file().floats("sinkhorn.comb")) < 1e-6);
}

BOOST_AUTO_TEST_CASE(mhc_mix_collapse_and_expand_equal_the_golden_ones) {
  const auto ops = make_cpu_ops(2);
  auto streams = ops_file().floats("mhc.stream"), y = ops_file().floats("mhc.y");
  std::vector<float> pre(16 * 4), post(16 * 4), comb(16 * 16), u(16 * 256);
  const HyperConnection hc{dense_of(first_shard().floats("layers.3.hc_attn_fn"), 24, 1024),
                           dense_of(first_shard().floats("layers.3.hc_attn_base"), 1, 24),
                           dense_of(first_shard().floats("layers.3.hc_attn_scale"), 1, 3)};
  const HcMix mix{matrix(pre, 16), matrix(post, 16), matrix(comb, 16)};
  ops->mhc_mix(matrix(streams, 16), hc, config(), mix);
  BOOST_TEST(relative_l2(pre, ops_file().floats("mhc.pre")) < 1e-6);
  BOOST_TEST(relative_l2(post, ops_file().floats("mhc.post")) < 1e-6);
  BOOST_TEST(relative_l2(comb, ops_file().floats("mhc.comb")) < 2e-6);
  ops->mhc_collapse(matrix(streams, 16), mix.pre, true, matrix(u, 16));
  BOOST_TEST(relative_l2(u, ops_file().floats("mhc.collapse")) < 1e-4);
  ops->mhc_expand(matrix(streams, 16), matrix(y, 16), mix, true);
  BOOST_TEST(relative_l2(streams, ops_file().floats("mhc.expand")) < 1e-4);
}

BOOST_AUTO_TEST_CASE(linears_equal_the_golden_products_with_and_without_q8) {
  const auto ops = make_cpu_ops(2);
  auto x = ops_file().floats("gemm.x");
  const Linear f8 = golden_linear(first_shard(), "layers.0.attn.wq_a"),
               f4 = golden_linear(first_shard(), "layers.0.ffn.experts.0.w1");
  const struct {
    const Linear* weight;
    bool q8;
    const char* name;
  } cases[] = {
      {&f8, true, "gemm.f8.q8"}, {&f8, false, "gemm.f8.noq8"}, {&f4, true, "gemm.f4.q8"}, {&f4, false, "gemm.f4.noq8"}};
  for (const auto& c : cases) {
    std::vector<float> y(static_cast<std::size_t>(8 * c.weight->n));
    ops->linear(matrix(x, 8), *c.weight, {.q8 = c.q8, .round_output = true}, matrix(y, 8));
    BOOST_TEST(relative_l2(y, ops_file().floats(c.name)) < 1e-4, c.name);
  }
}

BOOST_AUTO_TEST_CASE(moe_and_router_equal_the_golden_ones_with_both_limits) {
  const auto ops = make_cpu_ops(2);
  auto x = ops_file().floats("moe.x");
  MoeWeights weights;
  const auto expert = [](const std::string& name) {
    const Linear w2 = golden_linear(first_shard(), name + ".w2");
    return ExpertWeights{
        golden_linear(first_shard(), name + ".w1"), golden_linear(first_shard(), name + ".w3"), {{w2}, w2.n, w2.k}};
  };
  for (int e = 0; e < 6; ++e) weights.experts.push_back(expert("layers.0.ffn.experts." + std::to_string(e)));
  weights.shared = expert("layers.0.ffn.shared_experts");
  weights.gate = golden_linear(first_shard(), "layers.0.ffn.gate");
  const auto bias = first_shard().floats("layers.0.ffn.gate.bias");
  std::vector<std::int32_t> ids(24 * 2);
  std::vector<float> route_weights(24 * 2);
  const Routing routing{Tensor::i32(ids.data(), 24, 2), matrix(route_weights, 24)};
  ops->route(matrix(x, 24), weights.gate, bias.data(), 1.0, config().routed_scaling, routing);
  // The golden lists have no promised order.
  const auto golden_ids = ops_file().raw<std::int32_t>("moe.expert");
  const auto golden_weights = ops_file().floats("moe.weight");
  for (std::size_t t = 0; t < 24; ++t) {
    for (std::size_t j = 0; j < 2; ++j) {
      const std::size_t at = golden_ids[2 * t] == ids[2 * t + j] ? 2 * t : 2 * t + 1;
      BOOST_TEST(golden_ids[at] == ids[2 * t + j]);
      BOOST_TEST(std::abs(golden_weights[at] - route_weights[2 * t + j]) < 1e-5);
    }
  }
  for (const bool q8 : {true, false}) {
    for (const double limit : {10.0, 0.5}) {
      MoeCall call;
      call.x = matrix(x, 24);
      call.routing = routing;
      call.weights = &weights;
      call.swiglu_limit = limit;
      call.numerics.q8 = q8;
      std::vector<float> y(x.size());
      call.out = matrix(y, 24);
      ops->moe(call);
      const std::string name =
          std::string("moe.") + (q8 ? "s32" : "noq8") + (limit == 10.0 ? ".limit10.0" : ".limit0.5");
      BOOST_TEST(relative_l2(y, ops_file().floats(name)) < 5e-4, name);
    }
  }
}

BOOST_AUTO_TEST_CASE(the_engram_gate_writes_the_golden_stream_and_leaves_dead_positions_alone) {
  const auto ops = make_cpu_ops(2);
  const GoldenFile golden("engram.safetensors"), shard("ckpt/model-00004-of-00005.safetensors");
  const auto ids = golden.raw<std::int32_t>("row_ids");
  const auto keep = golden.raw<std::uint8_t>("keep");
  const auto codes = shard.raw<std::uint8_t>("layers.1.engram.embed.weight"),
             scales = shard.raw<std::uint8_t>("layers.1.engram.embed.scale");
  const std::int64_t rows = 28, columns = 12, row_dim = 32;
  std::vector<float> x;
  for (std::int64_t t = 0; t < rows; ++t) {
    for (std::int64_t c = 0; c < columns; ++c) {
      const auto id = static_cast<std::size_t>(
          ids[static_cast<std::size_t>(t * 2 * columns + c)]);  // layer 1 is the first of the two
      for (std::size_t i = 0; i < row_dim; ++i)
        x.push_back(e4m3_to_float(codes[id * row_dim + i]) * e8m0_to_float(scales[id]));
    }
  }
  const Linear wkv = golden_linear(shard, "layers.1.engram.wkv");
  std::vector<float> kv(static_cast<std::size_t>(rows * wkv.n));
  ops->linear(matrix(x, rows), wkv, {.q8 = true, .round_output = true}, matrix(kv, rows));
  EngramWeights weights;
  weights.q_weight = dense_of(shard.floats("layers.1.engram.q_weight"), 4, 256);
  weights.k_weight = dense_of(shard.floats("layers.1.engram.k_weight"), 4, 256);
  auto streams = golden.floats("stream");
  ops->engram_gate(matrix(streams, rows), matrix(kv, rows), weights, keep.data(), config(), true);
  BOOST_TEST(relative_l2(streams, golden.floats("layer1.out")) < 1e-4);
}

BOOST_AUTO_TEST_CASE(attention_equals_the_golden_rows_in_both_numerics) {
  const auto ops = make_cpu_ops(2);
  auto q = ops_file().floats("attn.q"), kv = ops_file().floats("attn.kv"), sink = ops_file().floats("attn.sink");
  const auto idx = ops_file().raw<std::int32_t>("attn.idx");
  const std::vector<std::int32_t> pages = {0, 1, 2};
  const PagedRecords cache{reinterpret_cast<std::byte*>(kv.data()), pages.data(), 128, RecordFormat::f32};
  std::vector<std::vector<std::int32_t>> selected(6);
  std::vector<AttentionRow> rows(6);
  for (std::size_t t = 0; t < 6; ++t) {
    std::copy_if(idx.begin() + static_cast<std::ptrdiff_t>(t * 100),
                 idx.begin() + static_cast<std::ptrdiff_t>(t * 100 + 100), std::back_inserter(selected[t]),
                 [](std::int32_t i) { return i >= 0; });
    rows[t].window_last = -1;  // no window: the golden lists name every key
    rows[t].compressed = cache;
    rows[t].selected = selected[t].data();
    rows[t].selected_count = static_cast<std::int32_t>(selected[t].size());
  }
  for (const bool bf16 : {true, false}) {
    std::vector<float> out(q.size());
    ops->attention({matrix(q, 6), rows, sink.data(), 4, 128, bf16, matrix(out, 6)});
    BOOST_TEST(relative_l2(out, ops_file().floats(bf16 ? "attn.o" : "attn.o_fp32")) < (bf16 ? 2e-3 : 1e-6));
  }
}

BOOST_AUTO_TEST_SUITE_END()
