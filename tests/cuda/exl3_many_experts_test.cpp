// EXL3 experts of many rows: whichever way a call takes (gpu/cuda/exl3_experts.cpp), rows have the bits of few rows.
//
// With two slots a row 1,536 uses are the most that do not take turns, 2,048 the fewest in the order of steps, and
// 2,049 rows the fewest of two chunks.
#include <boost/test/data/test_case.hpp>
#include <boost/test/unit_test.hpp>

#include "tests/cuda/device_fixture.hpp"
#include "tests/cuda/random_exl3.hpp"

using namespace tandem::gpu;
using namespace tandem::gpu::test;

namespace {

constexpr std::int64_t many_width = 256, many_inter = 256, few_rows = 64;

ExpertWeights many_rows_expert(Random& random, int bits) {
  const auto matrix = [&](std::int64_t n, std::int64_t k) { return placed_exl3(random_exl3(random, bits, n, k)); };
  return {matrix(many_inter, many_width),
          matrix(many_inter, many_width),
          {{matrix(many_width, many_inter / 2), matrix(many_width, many_inter / 2)}, many_width, many_inter}};
}

Floats mixed_rows(MoeCall call, const DeviceMatrix& out, bool begins) {
  call.out = out;
  if (begins) backends().cuda->begin_moe(call);
  backends().cuda->moe(call);
  return out.floats();
}

// All rows at once, then the first, the last and some in between without the others.
void check_many_experts(std::int64_t rows) {
  Random random(61);
  MoeWeights weights;
  for (const int bits : {3, 2, 3, 3}) weights.experts.push_back(many_rows_expert(random, bits));
  weights.shared = many_rows_expert(random, 5);
  backends().cuda->prepare(weights);
  std::vector<std::int32_t> ids;
  Floats shares;
  for (std::int64_t t = 0; t < rows; ++t) {
    const auto first = static_cast<std::int32_t>(random.below(4));
    ids.insert(ids.end(), {first, (first + 1 + static_cast<std::int32_t>(random.below(3))) % 4});
    shares.insert(shares.end(), {0.75F, 0.5F});
  }
  const DeviceMatrix x(random.activations(rows * many_width), rows), experts(ids, rows), parts(shares, rows);
  MoeCall call;
  call.weights = &weights;
  call.numerics = {false, true, false, true};
  call.x = x;
  call.routing = {experts, parts};
  const Floats all = mixed_rows(call, DeviceMatrix(2 * rows, many_width), true);
  for (const std::int64_t first : {std::int64_t{0}, rows / 2, rows - few_rows}) {
    call.x = x.tensor().slice_rows(first, few_rows);
    call.routing = {experts.tensor().slice_rows(first, few_rows), parts.tensor().slice_rows(first, few_rows)};
    const Floats some = mixed_rows(call, DeviceMatrix(2 * few_rows, many_width), false);
    Floats expected;
    for (const std::int64_t block : {std::int64_t{0}, rows}) {
      const auto begin = all.begin() + (block + first) * many_width;
      expected.insert(expected.end(), begin, begin + few_rows * many_width);
    }
    check_same(std::to_string(rows) + " rows, from " + std::to_string(first), expected, some);
  }
}

}  // namespace

BOOST_AUTO_TEST_SUITE(exl3)

BOOST_DATA_TEST_CASE(experts_of_many_rows_have_the_bits_of_few,
                     boost::unit_test::data::make({768, 769, 1023, 1024, 2048, 2049}), rows) {
  if (has_device()) check_many_experts(rows);
}

BOOST_AUTO_TEST_SUITE_END()
