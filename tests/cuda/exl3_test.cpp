// EXL3 weights on the device: close to the CPU backend, which keeps FP32 activations, and equal to themselves in any
// company.
#include <boost/test/unit_test.hpp>

#include <cmath>

#include "tests/cuda/device_fixture.hpp"
#include "tests/cuda/random_exl3.hpp"

using namespace tandem::gpu;
using namespace tandem::gpu::test;

namespace {

// Rotated activations are rounded to FP16 (2^-12 relative each); the rest is FP32 on both sides.
constexpr double tolerance = 1e-3;

Linear prepared(const Linear& weight) {
  return placed_exl3(weight);
}

double relative_l2(const Floats& found, const Floats& expected) {
  double difference = 0, size = 0;
  for (std::size_t i = 0; i < found.size(); ++i) {
    difference += std::pow(static_cast<double>(found[i]) - expected[i], 2);
    size += std::pow(static_cast<double>(expected[i]), 2);
  }
  return std::sqrt(difference / size);
}

ExpertWeights random_expert(Random& random, int bits, std::int64_t width, std::int64_t inter) {
  return {random_exl3(random, bits, inter, width),
          random_exl3(random, bits, inter, width),
          {{random_exl3(random, bits, width, inter / 2), random_exl3(random, bits, width, inter / 2)}, width, inter}};
}

ExpertWeights prepared(const ExpertWeights& expert) {
  return {prepared(expert.w1),
          prepared(expert.w3),
          {{prepared(expert.w2.slices[0]), prepared(expert.w2.slices[1])}, expert.w2.n, expert.w2.k_local}};
}

}  // namespace

BOOST_AUTO_TEST_SUITE(exl3)

BOOST_AUTO_TEST_CASE(products_are_close_to_the_cpus_for_every_width) {
  if (!has_device()) return;
  Random random(51);
  for (int bits = 1; bits <= 8; ++bits) {
    for (const std::int64_t rows : {1, 3, 65}) {
      const Linear weight = random_exl3(random, bits, 256, 384);
      Floats x = random.activations(rows * 384), y(static_cast<std::size_t>(rows * 256));
      backends().cpu->linear(matrix(x, rows), weight, {false, false}, matrix(y, rows));
      const DeviceMatrix device_x(x, rows), device_y(rows, 256);
      backends().cuda->linear(device_x, prepared(weight), {false, false}, device_y);
      BOOST_TEST(relative_l2(device_y.floats(), y) < tolerance, bits << " bits, " << rows << " rows");
    }
  }
}

BOOST_AUTO_TEST_CASE(a_row_does_not_depend_on_the_rows_beside_it) {
  if (!has_device()) return;
  Random random(52);
  const Linear weight = prepared(random_exl3(random, 3, 128, 512));
  const Floats x = random.activations(70 * 512);
  const DeviceMatrix all(x, 70), together(70, 128);
  backends().cuda->linear(all, weight, {false, true}, together);
  const Floats expected = together.floats();
  for (const std::int64_t row : {0, 63, 64, 69}) {
    const DeviceMatrix alone(1, 128);
    backends().cuda->linear(all.tensor().slice_rows(row, 1), weight, {false, true}, alone);
    check_same("row", Floats(expected.begin() + row * 128, expected.begin() + (row + 1) * 128), alone.floats());
  }
}

BOOST_AUTO_TEST_CASE(two_linears_of_one_input_have_the_bits_that_each_has_alone) {
  if (!has_device()) return;
  Random random(54);
  struct Pair {
    std::int64_t k, first, second;
    int first_bits, second_bits;
    std::vector<std::int64_t> rows = {1, 2, 6, 16, 17};
  };
  for (const Pair& pair : {Pair{5120, 1280, 512, 5, 5},
                           {5120, 512, 1280, 5, 5},
                           {384, 256, 128, 3, 3},
                           {384, 256, 128, 3, 4},
                           {128, 384, 128, 3, 3, {2049, 2100}}}) {
    const Linear first = prepared(random_exl3(random, pair.first_bits, pair.first, pair.k));
    const Linear second = prepared(random_exl3(random, pair.second_bits, pair.second, pair.k));
    for (const std::int64_t rows : pair.rows) {  // of chunks: pieces, and a rest that goes together or not
      const DeviceMatrix x(random.activations(rows * pair.k), rows);
      const DeviceMatrix a(rows, pair.first), b(rows, pair.second), joint_a(rows, pair.first),
          joint_b(rows, pair.second);
      backends().cuda->linear(x, first, {false, true}, a);
      backends().cuda->linear(x, second, {false, false}, b);
      const LinearCall calls[] = {{x, &first, {false, true}, joint_a}, {x, &second, {false, false}, joint_b}};
      backends().cuda->linears(calls);
      check_same("first of two", a.floats(), joint_a.floats());
      check_same("second of two", b.floats(), joint_b.floats());
    }
  }
}

namespace {

// Rows of two experts each against the CPU, then some of them without the others: a few rows find their experts
// themselves, more are sorted by them, many have a plan. All but every ninth row share an expert.
void check_experts(std::int64_t width, std::int64_t inter, std::int64_t rows) {
  constexpr std::int64_t slots = 2;
  Random random(53);
  MoeWeights weights, device_weights;
  for (const int bits : {3, 2, 3, 3}) weights.experts.push_back(random_expert(random, bits, width, inter));
  weights.shared = random_expert(random, 5, width, inter);
  for (const ExpertWeights& expert : weights.experts) device_weights.experts.push_back(prepared(expert));
  device_weights.shared = prepared(weights.shared);
  backends().cuda->prepare(device_weights);
  std::vector<std::int32_t> ids;
  Floats shares, x = random.activations(rows * width), out(static_cast<std::size_t>(2 * rows * width));
  for (int t = 0; t < rows; ++t) {
    const int shared = t % 9 == 8 ? 0 : 1;
    ids.insert(ids.end(), {shared, t % 2 == 0 ? 3 : 2 * (1 - shared)});
    shares.insert(shares.end(), {0.75F, 0.5F});
  }
  MoeCall call;
  call.x = matrix(x, rows);
  call.routing = {Tensor::i32(ids.data(), rows, slots), matrix(shares, rows)};
  call.weights = &weights;
  call.numerics = {false, true, false, true};
  call.out = matrix(out, 2 * rows);
  backends().cpu->moe(call);

  const DeviceMatrix device_x(x, rows), device_ids(ids, rows), device_shares(shares, rows);
  const DeviceMatrix device_out(2 * rows, width);
  call.x = device_x;
  call.routing = {device_ids, device_shares};
  call.weights = &device_weights;
  call.out = device_out;
  backends().cuda->moe(call);
  const Floats found = device_out.floats();
  BOOST_TEST(relative_l2(found, out) < tolerance);

  for (const auto& [first, count] :
       {std::pair<std::int64_t, std::int64_t>{4, 1}, {0, 2}, {3, 3}, {0, 6}, {1, 8}, {2, 64}, {0, 70}}) {
    if (first + count > rows) continue;
    call.x = device_x.tensor().slice_rows(first, count);
    call.routing = {device_ids.tensor().slice_rows(first, count), device_shares.tensor().slice_rows(first, count)};
    const DeviceMatrix some(2 * count, width);
    call.out = some;
    if (count % 2 == 0) backends().cuda->begin_moe(call);
    backends().cuda->moe(call);
    Floats expected;
    for (const std::int64_t block : {std::int64_t{0}, rows}) {
      const auto begin = found.begin() + (block + first) * width;
      expected.insert(expected.end(), begin, begin + count * width);
    }
    check_same(std::to_string(count) + " rows of experts", expected, some.floats());
  }
}

}  // namespace

BOOST_AUTO_TEST_CASE(experts_are_close_to_the_cpus_and_rows_are_independent) {
  if (!has_device()) return;
  check_experts(256, 256, 9);
  check_experts(128, 512, 9);   // slices of w2 with as many groups as chains
  check_experts(5120, 256, 9);  // two slices of w1
  check_experts(256, 256, 17);
  check_experts(128, 256, 71);
}

BOOST_AUTO_TEST_SUITE_END()
