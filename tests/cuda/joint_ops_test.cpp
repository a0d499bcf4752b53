// Operations that join others in one launch: the bits of those one after the other, as the CPU backend does them.
#include <boost/test/unit_test.hpp>

#include <cstring>

#include "gpu/rope_table.hpp"
#include "tests/cuda/device_fixture.hpp"
#include "tests/cuda/random_exl3.hpp"

using namespace tandem::gpu;
using namespace tandem::gpu::test;

namespace {

struct Angles {
  explicit Angles(RopeKind kind) : host(RopeConfig{}, 64, kind, 4096), device(host) {
    device.place(backends().cuda->memory());
  }
  RopeTable host, device;
};

// Records of one format on both sides, `slots` of them in a ring.
struct Records {
  Records(RecordFormat format, int n, int slots) {
    host = Buffer::host(static_cast<std::size_t>(slots) * record_bytes(format, n));
    std::memset(host.data.get(), 0, host.bytes);
    device = copy_of(host);
    backends().cuda->memory().place(device);
    plain = {host.data.get(), slots, n, format};
    on_device = plain;
    on_device.base = device.data.get();
  }
  void check(const std::string& what) const {
    const std::vector<std::byte> found = bytes_on_host(device.data.get(), device.bytes);
    BOOST_TEST(std::memcmp(found.data(), host.data.get(), host.bytes) == 0, what);
  }
  Buffer host, device;
  RecordRing plain, on_device;
};

struct FinishCase {
  std::int64_t rows, cols;
  int heads = 1;
  bool norm = false, angle = false, x4 = false, record = false;
  float factor = 1;
  RecordFormat format = RecordFormat::w8;
};

// One tensor of a call, on both sides.
struct Finished {
  Finished(Random& random, const FinishCase& one, bool round, const Angles& angles)
      : test(one),
        x(random.activations(one.rows * one.cols, 3.0F)),
        y(x),
        weight(dense(random.floats(one.cols), 1)),
        device_weight(placed(weight)),
        device_x(x, one.rows),
        device_y(x, one.rows),
        records(one.format, static_cast<int>(one.cols), 8) {
    for (std::int64_t row = 0; row < one.rows; ++row) positions.push_back(3 + 7 * row);
    plain.x = one.norm ? matrix(x, one.rows) : matrix(y, one.rows);
    plain.y = matrix(y, one.rows);
    plain.norm = {one.norm ? &weight : nullptr, 1e-20, round};
    plain.factor = one.factor;
    plain.heads = one.heads;
    plain.quantises_x4 = one.x4;
    plain.positions = positions;
    if (one.angle) plain.rope = angles.host.view();
    on_device = plain;
    on_device.x = one.norm ? device_x.tensor() : device_y.tensor();
    on_device.y = device_y;
    if (one.norm) on_device.norm.weight = &device_weight;
    if (one.angle) on_device.rope = angles.device.view();
    if (!one.record) return;
    rings.assign(positions.size(), records.plain);
    device_rings.assign(positions.size(), records.on_device);
    plain.rings = rings;
    on_device.rings = device_rings;
  }
  Finished(const Finished&) = delete;

  void check(const std::string& what) const {
    check_same(what, y, device_y.floats());
    records.check(what + " records");
  }

  FinishCase test;
  Floats x, y;
  DenseF32 weight, device_weight;
  DeviceMatrix device_x, device_y;
  Records records;
  std::vector<std::int64_t> positions;
  std::vector<RecordRing> rings, device_rings;
  RowFinish plain, on_device;
};

void check_finish(const std::string& what, const std::vector<FinishCase>& cases) {
  const Angles angles(RopeKind::compressed);
  for (const bool round : {true, false}) {
    Random random(71);
    std::vector<std::unique_ptr<Finished>> all;
    std::vector<RowFinish> plain, on_device;
    for (const FinishCase& one : cases) {
      all.push_back(std::make_unique<Finished>(random, one, round, angles));
      plain.push_back(all.back()->plain);
      on_device.push_back(all.back()->on_device);
    }
    backends().cpu->finish_rows(plain);
    backends().cuda->finish_rows(on_device);
    for (std::size_t i = 0; i < all.size(); ++i) all[i]->check(what + " " + std::to_string(i));
  }
}

struct SiteCase {
  std::int64_t rows, hidden, blocks;
  int mult = 4;
};

void check_site(const SiteCase& test, bool has_next) {
  Random random(72);
  const std::int64_t rows = test.rows, hidden = test.hidden;
  const auto mult = static_cast<std::int64_t>(test.mult);
  const std::string what = std::to_string(rows) + " x " + std::to_string(hidden) + ", " + std::to_string(mult);
  Floats streams = random.activations(rows * mult * hidden), parts = random.floats(test.blocks * rows * hidden);
  Floats pre = random.floats(rows * mult), post = random.floats(rows * mult), comb = random.floats(rows * mult * mult);
  Floats sum(static_cast<std::size_t>(rows * hidden)), u(sum.size()), input(sum.size());
  const DenseF32 weight = dense(random.floats(hidden), 1), device_weight = placed(weight);
  const DeviceMatrix device_streams(streams, rows), device_parts(parts, test.blocks * rows), device_pre(pre, rows),
      device_post(post, rows), device_comb(comb, rows), device_sum(rows, hidden), device_u(rows, hidden),
      device_input(rows, hidden);
  const SiteEnd plain{matrix(streams, rows),
                      matrix(parts, test.blocks * rows),
                      {matrix(pre, rows), matrix(post, rows), matrix(comb, rows)},
                      true,
                      matrix(sum, rows)};
  const SiteEnd on_device{device_streams, device_parts, {device_pre, device_post, device_comb}, true, device_sum};
  if (has_next) {
    backends().cpu->end_site(plain, {plain.mix.pre, {&weight, 1e-20, true}, matrix(u, rows), matrix(input, rows)});
    backends().cuda->end_site(on_device, {device_pre, {&device_weight, 1e-20, true}, device_u, device_input});
    check_same("input " + what, input, device_input.floats());
  } else {
    backends().cpu->end_site(plain);
    backends().cuda->end_site(on_device);
  }
  check_same("streams " + what, streams, device_streams.floats());
  check_same("sum " + what, sum, device_sum.floats());
}

// Rows with windows of `window` keys, in the last of 40 slots, without entries.
void check_rotated_attention(RecordFormat format, std::int64_t rows, int heads, int dim, std::int64_t window) {
  Random random(73);
  const Angles angles(RopeKind::plain);
  Records ring(format, dim, 40);
  std::vector<std::int64_t> places;
  for (std::int64_t slot = 0; slot < 40; ++slot) places.push_back(slot);
  Floats keys = random.activations(40 * dim);
  backends().cpu->write_window(matrix(keys, 40), std::vector<RecordRing>(40, ring.plain), places);
  backends().cuda->write_window(DeviceMatrix(keys, 40), std::vector<RecordRing>(40, ring.on_device), places);
  std::vector<AttentionRow> plain(static_cast<std::size_t>(rows)), on_device;
  std::vector<std::int64_t> positions;
  for (AttentionRow& row : plain) {
    row.window = ring.plain;
    row.window_last = 1000 + static_cast<std::int64_t>(positions.size());
    row.window_first = row.window_last - window + 1;
    positions.push_back(row.window_last);
  }
  on_device = plain;
  for (AttentionRow& row : on_device) row.window = ring.on_device;
  const DenseF32 sink = dense(random.floats(heads), 1), device_sink = placed(sink);
  for (const bool round : {true, false}) {
    Floats q = random.activations(rows * heads * dim, 2.0F), out(q.size());
    const DeviceMatrix device_q(q, rows), device_out(rows, std::int64_t{heads} * dim);
    backends().cpu->rotated_attention({matrix(q, rows), plain, sink.data(), heads, dim, round, matrix(out, rows)},
                                      {positions, angles.host.view()});
    backends().cuda->rotated_attention({device_q, on_device, device_sink.data(), heads, dim, round, device_out},
                                       {positions, angles.device.view()});
    const std::string what = "rotated attention " + std::to_string(heads) + " x " + std::to_string(dim);
    if (round && dim == 512 && format == RecordFormat::w8) {  // on matrix units
      check_near(what, dim, out, device_out.floats());
    } else {
      check_same(what, out, device_out.floats());
    }
  }
}

// Queries straight from a product, whose attention may read its keys while that runs.
void check_attention_behind_a_product(std::int64_t rows, int heads) {
  constexpr int dim = 512, inputs = 128;
  Random random(75);
  const Angles angles(RopeKind::plain);
  Records ring(RecordFormat::w8, dim, 40);
  std::vector<std::int64_t> places;
  for (std::int64_t slot = 0; slot < 40; ++slot) places.push_back(slot);
  const Floats keys = random.activations(40 * dim);
  backends().cuda->write_window(DeviceMatrix(keys, 40), std::vector<RecordRing>(40, ring.on_device), places);
  std::vector<AttentionRow> all(static_cast<std::size_t>(rows));
  std::vector<std::int64_t> positions;
  for (AttentionRow& row : all) {
    row.window = ring.on_device;
    row.window_last = 1000 + static_cast<std::int64_t>(positions.size());
    row.window_first = row.window_last - 37;
    positions.push_back(row.window_last);
  }
  const std::int64_t width = std::int64_t{heads} * dim;
  const Linear weight = placed_exl3(random_exl3(random, 5, width, inputs));
  const DenseF32 sink = placed(dense(random.floats(heads), 1));
  const DeviceMatrix x(random.activations(rows * inputs), rows), q(rows, width), out(rows, width), behind(rows, width);
  AttentionCall call{q, all, sink.data(), heads, dim, true, out};
  backends().cuda->linear(x, weight, {false, true}, q);
  backends().cuda->rotated_attention(call, {positions, angles.device.view()});
  call.out = behind;
  call.behind = &weight;
  backends().cuda->linear(x, weight, {false, true}, q);
  backends().cuda->rotated_attention(call, {positions, angles.device.view()});
  check_same("attention behind a product", out.floats(), behind.floats());
}

}  // namespace

BOOST_AUTO_TEST_SUITE(joint_ops)

BOOST_AUTO_TEST_CASE(finished_rows_have_the_bits_of_one_operation_after_the_other) {
  if (!has_device()) return;
  check_finish("one value", {{1, 1, 1, true}});
  check_finish("latent query and window entry", {{1, 1280, 1, true}, {1, 512, 1, true, true, false, true}});
  check_finish("several rows", {{5, 1279, 1, true}, {3, 512, 1, true, true, false, true}, {1, 33}});
  check_finish("index queries and head weights",
               {{3, 4096, 32, false, true, true}, {3, 32, 1, false, false, false, false, 0.015625F}});
  check_finish("index key and compressed entry", {{2, 128, 1, true, true, false, true, 1, RecordFormat::x4},
                                                  {2, 512, 1, false, true, false, true, 1, RecordFormat::n4}});
  check_finish("plain records", {{2, 96, 1, true, true, false, true, 1, RecordFormat::f32}});
  check_finish("the widest row", {{1, 12256, 1, true}});
  check_finish("too wide for one launch", {{1, 12288, 1, true}, {2, 64, 1, true, true}});
  check_finish("more than one launch takes", {{1, 64}, {1, 64, 1, true}, {2, 128, 2, false, true}, {1, 32, 1, true}});
}

BOOST_AUTO_TEST_CASE(empty_tensors_are_finished_already) {
  if (!has_device()) return;
  backends().cuda->finish_rows({});
  const RowFinish none;
  backends().cuda->finish_rows({&none, 1});
  BOOST_TEST(backends().cuda->wait().has_value());
}

BOOST_AUTO_TEST_CASE(the_end_of_a_site_has_the_bits_of_sum_expansion_and_input) {
  if (!has_device()) return;
  for (const bool has_next : {false, true}) {
    check_site({1, 5120, 1}, has_next);
    check_site({1, 5120, 2}, has_next);
    check_site({3, 256, 4}, has_next);
    check_site({7, 4, 2}, has_next);
    check_site({2, 33, 2}, has_next);     // not aligned: more launches
    check_site({2, 64, 2, 3}, has_next);  // other numbers of streams
    check_site({32, 96, 2}, has_next);    // a cluster of blocks a row, as many rows as may have one
    check_site({33, 96, 2}, has_next);    // one block a row
    check_site({1, 12256, 1}, has_next);  // as wide as a block can hold
    check_site({1, 12260, 1}, has_next);
    for (const std::int64_t rows : {191, 192, 193}) check_site({rows, 132, 2}, has_next);  // many rows go another way
    check_site({192, 12000, 1}, has_next);
    check_site({192, 12004, 1}, has_next);
  }
}

BOOST_AUTO_TEST_CASE(attention_that_rotates_gives_what_rotation_attention_and_rotation_back_give) {
  if (!has_device()) return;
  for (const RecordFormat format : {RecordFormat::w8, RecordFormat::f32}) {
    check_rotated_attention(format, 1, 32, 512, 40);
    check_rotated_attention(format, 2, 3, 512, 1);
    check_rotated_attention(format, 3, 2, 64, 17);
    check_rotated_attention(format, 1, 5, 96, 33);
  }
  check_rotated_attention(RecordFormat::w8, 40, 32, 512, 5);  // too many rows to be split
}

BOOST_AUTO_TEST_CASE(attention_right_behind_its_product_has_the_bits_of_one_that_waits) {
  if (!has_device()) return;
  for (const std::int64_t rows : {1, 3, 9, 17}) check_attention_behind_a_product(rows, 32);
}

BOOST_AUTO_TEST_CASE(experts_are_chosen_in_one_launch_as_in_two) {
  if (!has_device()) return;
  for (const std::int64_t rows : {1, 2, 4, 5, 7, 9, 64, 65}) {
    Random random(74);
    constexpr std::int64_t experts = 384, slots = 6, hidden = 1024;
    const Linear gate = random_linear(random, WeightFormat::bf16, experts, hidden);
    const DenseF32 bias = dense(random.floats(experts, 0.1F), 1), device_bias = placed(bias);
    Floats x = random.activations(rows * hidden), weights(static_cast<std::size_t>(rows * slots));
    for (std::int64_t i = 0; i < hidden && rows == 5; ++i) x[static_cast<std::size_t>(2 * hidden + i)] = 0;  // all tie
    std::vector<std::int32_t> ids(weights.size());
    const DeviceMatrix device_x(x, rows), device_weights(rows, slots), device_ids(rows, slots, DType::i32);
    const Linear device_gate = placed(gate);
    for (const bool biased : {true, false}) {
      backends().cpu->route(matrix(x, rows), gate, biased ? bias.data() : nullptr, 1.0, 1.5,
                            {Tensor::i32(ids.data(), rows, slots), matrix(weights, rows)});
      backends().cuda->route(device_x, device_gate, biased ? device_bias.data() : nullptr, 1.0, 1.5,
                             {device_ids, device_weights});
      BOOST_TEST(device_ids.ints() == ids, boost::test_tools::per_element());
      const Floats found = device_weights.floats();
      for (std::size_t i = 0; i < weights.size(); ++i) {
        BOOST_TEST(std::abs(found[i] - weights[i]) <= 4e-7F * weights[i]);  // the libraries' exp and log1p
      }
    }
  }
}

BOOST_AUTO_TEST_SUITE_END()
