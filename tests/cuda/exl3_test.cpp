// EXL3 weights on the device: close to the CPU backend, which keeps FP32 activations, and equal to themselves in any
// company.
#include <boost/test/unit_test.hpp>

#include <cmath>

#include "gpu/numeric/bf16.hpp"
#include "tests/cuda/device_fixture.hpp"

using namespace tandem::gpu;
using namespace tandem::gpu::test;

namespace {

// Rotated activations are rounded to FP16 (2^-12 relative each); the rest is FP32 on both sides.
constexpr double tolerance = 1e-3;

Linear random_exl3(Random& random, int bits, std::int64_t n, std::int64_t k) {
  Linear weight;
  weight.format = WeightFormat::exl3;
  weight.n = n;
  weight.k = k;
  weight.exl3.bits = static_cast<std::uint8_t>(bits);
  const std::int64_t inputs = exl3::padded_side(k), outputs = exl3::padded_side(n);
  weight.codes = Buffer::host(static_cast<std::size_t>(inputs * outputs * bits / 8));
  const auto codes = random.bytes(static_cast<std::int64_t>(weight.codes.bytes));
  std::copy(codes.begin(), codes.end(), weight.codes.as<std::uint8_t>());
  weight.scales = Buffer::host(static_cast<std::size_t>(2 * (inputs + outputs)));
  auto* scales = weight.scales.as<std::uint16_t>();
  for (const float value : random.floats(inputs)) *scales++ = float_to_f16(value > 0 ? 1.0F + 0.1F * value : -1.0F);
  for (const float value : random.floats(outputs)) *scales++ = float_to_f16(0.05F * value);
  return weight;
}

Linear prepared(const Linear& weight) {
  Linear copy = weight;
  copy.codes = copy_of(weight.codes);
  backends().cuda->prepare(copy);
  return placed(copy);
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

BOOST_AUTO_TEST_CASE(two_matrices_of_one_input_have_the_bits_of_each_alone) {
  if (!has_device()) return;
  Random random(54);
  const Linear wide = prepared(random_exl3(random, 5, 384, 512)), narrow = prepared(random_exl3(random, 5, 128, 512));
  const Floats x = random.activations(17 * 512);
  const DeviceMatrix input(x, 17);
  for (const std::int64_t rows : {1, 2, 6, 16, 17}) {
    const Tensor some = input.tensor().slice_rows(0, rows);
    const DeviceMatrix first(rows, 384), second(rows, 128), first_alone(rows, 384), second_alone(rows, 128);
    const LinearCall calls[] = {{some, &wide, {false, true}, first}, {some, &narrow, {false, true}, second}};
    backends().cuda->linears(calls);
    backends().cuda->linear(some, wide, {false, true}, first_alone);
    backends().cuda->linear(some, narrow, {false, true}, second_alone);
    check_same("first of a pair", first_alone.floats(), first.floats());
    check_same("second of a pair", second_alone.floats(), second.floats());
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
