// EXL3 products of whole chunks: the bits of the same rows taken at most 64 at a time, and close to double precision.
//
// Splits of the inputs differ by shape, codebook and launch: shapes here are chosen so that slices and chains have one
// group, several, unequal numbers of them and none.
#include <boost/test/unit_test.hpp>

#include <cmath>

#include "gpu/cuda/exl3/split.hpp"
#include "tests/cuda/exl3_fixture.hpp"

using namespace tandem::gpu;
using namespace tandem::gpu::cuda;
using namespace tandem::gpu::test;

namespace {

// Of fp32 results, relative and in the mean of a row: what fp16 activations cost.
constexpr double chunk_tolerance = 4e-4;

// Some matrices that are multiplied together, with rows and room for their products.
struct TestSet {
  std::vector<std::unique_ptr<TestMatrix>> matrices;
  std::vector<std::unique_ptr<DeviceMatrix>> x, y;
  std::vector<Floats> host_x;
  int rows;

  TestSet(Random& random, const Exl3Shape& shape, int count, int row_count, bool has_bias = false) : rows(row_count) {
    for (int i = 0; i < count; ++i) {
      matrices.push_back(std::make_unique<TestMatrix>(random, shape, has_bias));
      host_x.push_back(random.activations(std::int64_t{rows} * shape.inputs));
      x.push_back(std::make_unique<DeviceMatrix>(host_x.back(), rows));
      y.push_back(std::make_unique<DeviceMatrix>(rows, shape.outputs));
    }
  }
  const Exl3Shape& shape() const { return matrices.front()->view.shape; }

  // `part` rows from row `first` on.
  Exl3Set set(int first, int part) const {
    Exl3Set result;
    result.count = static_cast<std::int32_t>(matrices.size());
    for (std::size_t i = 0; i < matrices.size(); ++i) {
      result.members[i] = {matrices[i]->view, exl3_rows(x[i]->tensor().slice_rows(first, part)),
                           exl3_rows(y[i]->tensor().slice_rows(first, part))};
    }
    return result;
  }
  Floats products() const {
    settle();
    Floats all;
    for (const auto& one : y) {
      const Floats values = one->floats();
      all.insert(all.end(), values.begin(), values.end());
    }
    return all;
  }

  Floats in_steps(int step) const {
    settle();
    const Rotated rotated(std::int64_t{step} * static_cast<std::int64_t>(matrices.size()), shape().inputs);
    settle();
    for (int first = 0; first < rows; first += step) {
      const int part = std::min(step, rows - first);
      check(exl3_multiply_set(nullptr, set(first, part), part, rotated.view()));
    }
    return products();
  }
  Floats in_blocks(int block_rows, Exl3Order order = Exl3Order::lanes) const {
    const Rotated rotated(std::int64_t{rows} * static_cast<std::int64_t>(matrices.size()), shape().inputs);
    settle();
    check(exl3_rotate_set(nullptr, set(0, rows), rows, rotated.view(order)));
    check(exl3_multiply_blocks(nullptr, set(0, rows), rotated.view(order), rows, block_rows));
    return products();
  }
  Floats at_once() const {
    const Rotated rotated(std::int64_t{rows} * static_cast<std::int64_t>(matrices.size()), shape().inputs);
    settle();
    check(exl3_multiply_set(nullptr, set(0, rows), rows, rotated.view()));
    return products();
  }
};

std::vector<int> block_sizes(const Exl3Shape& shape) {
  if (exl3_block_rows(shape) == 64) return {64};
  return {64, 128};
}

void check_chunk(const Exl3Shape& shape, int count, int rows, std::uint32_t seed) {
  Random random(seed);
  const TestSet set(random, shape, count, rows, rows % 2 == 1);
  const std::string name = exl3_name(shape, count, rows);
  const Floats expected = set.in_steps(64);
  for (const int block_rows : block_sizes(shape)) {
    check_same(name + ", blocks of " + std::to_string(block_rows), expected, set.in_blocks(block_rows));
  }
  if (exl3_takes_steps(shape)) {
    check_same(name + ", by warpgroups", expected, set.in_blocks(exl3_block_rows(shape), Exl3Order::steps));
  }
  check_same(name + ", at once", expected, set.at_once());
}

// Two matrices of one kind whose outputs differ, together and each alone.
void check_pair(const Exl3Shape& shape, int second_outputs, int rows, std::uint32_t seed) {
  Random random(seed);
  Exl3Shape second = shape;
  second.outputs = second_outputs;
  const TestSet a(random, shape, 1, rows, true), b(random, second, 1, rows);
  const std::string name = exl3_name(shape, 2, rows) + ", outputs of the second " + std::to_string(second_outputs);
  const DeviceMatrix joint_a(rows, shape.outputs), joint_b(rows, second_outputs);
  Exl3Set set;
  set.count = 2;
  set.members[0] = {a.matrices.front()->view, exl3_rows(a.x.front()->tensor()), exl3_rows(joint_a)};
  set.members[1] = {b.matrices.front()->view, exl3_rows(b.x.front()->tensor()), exl3_rows(joint_b)};
  const Rotated rotated(2 * std::int64_t{rows}, shape.inputs);
  settle();
  BOOST_TEST(exl3_accepts_pair(set, rows), name);
  check(exl3_multiply_pair(nullptr, set, rows, rotated.view()));
  settle();
  check_same(name + ", the first", a.in_steps(exl3_rows_max), joint_a.floats());
  check_same(name + ", the second", b.in_steps(exl3_rows_max), joint_b.floats());
}

double row_error(const float* found, const std::vector<double>& expected) {
  double difference = 0, size = 0;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    difference += (found[i] - expected[i]) * (found[i] - expected[i]);
    size += expected[i] * expected[i];
  }
  return std::sqrt(difference / size);
}

}  // namespace

BOOST_AUTO_TEST_SUITE(exl3_chunks)

BOOST_AUTO_TEST_CASE(a_chunk_has_the_bits_of_its_steps_for_every_width) {
  if (!has_device()) return;
  const int rows[] = {65, 100, 128, 129, 257};
  for (int bits = 1; bits <= 8; ++bits) {
    const Exl3Shape shape{bits % 2 == 0 ? 640 : 1280, bits % 3 == 0 ? 256 : 128, bits, Exl3Codebook::mul1};
    check_chunk(shape, 1, rows[bits % 5], 60U + static_cast<std::uint32_t>(bits));
  }
}

BOOST_AUTO_TEST_CASE(a_chunk_has_the_bits_of_its_steps_for_every_number_of_rows) {
  if (!has_device()) return;
  const Exl3Shape shape{384, 128, 3, Exl3Codebook::mul1};
  for (const int rows : {1, 31, 32, 33, 63, 64, 65, 96, 100, 127, 128, 129, 191, 257}) check_chunk(shape, 1, rows, 70);
}

BOOST_AUTO_TEST_CASE(a_chunk_has_the_bits_of_its_steps_for_every_division_of_the_inputs) {
  if (!has_device()) return;
  check_chunk({128, 128, 4, Exl3Codebook::mul1}, 1, 129, 71);    // one slice, empty chains
  check_chunk({5120, 128, 5, Exl3Codebook::mul1}, 1, 129, 72);   // 8 slices, 8 chains of one group or two
  check_chunk({5120, 128, 2, Exl3Codebook::mcg}, 1, 100, 73);    // 8 slices, 4 chains of two groups or three
  check_chunk({1152, 2432, 4, Exl3Codebook::mul1}, 1, 65, 74);   // as few groups as chains
  check_chunk({1280, 13312, 5, Exl3Codebook::mul1}, 1, 65, 75);  // 2 slices, 4 chains of unequal length
  check_chunk({640, 256, 6, Exl3Codebook::three_inst}, 1, 257, 76);
}

BOOST_AUTO_TEST_CASE(rows_of_a_whole_chunk_have_the_bits_of_their_steps) {
  if (!has_device()) return;
  for (const int rows : {200, 2047, 2048}) check_chunk({256, 256, 3, Exl3Codebook::mul1}, 1, rows, 83);
  check_chunk({640, 3072, 5, Exl3Codebook::mul1}, 1, 200, 84);  // the order of steps is chosen by itself
}

BOOST_AUTO_TEST_CASE(members_of_a_set_have_the_bits_of_their_steps) {
  if (!has_device()) return;
  check_chunk({512, 128, 5, Exl3Codebook::mul1}, 4, 129, 77);
  check_chunk({640, 384, 4, Exl3Codebook::mul1}, 2, 100, 78);
}

// More tiles than a card has multiprocessors: blocks go from one member's rows to another's.
BOOST_AUTO_TEST_CASE(blocks_that_take_tiles_of_several_members_keep_their_bits) {
  if (!has_device() || !exl3_takes_steps({128, 640, 5, Exl3Codebook::mul1})) return;
  check_chunk({128, 640, 5, Exl3Codebook::mul1}, 3, 1200, 85);
  check_chunk({640, 1152, 4, Exl3Codebook::mul1}, 2, 1023, 86);
  check_chunk({384, 384, 2, Exl3Codebook::mul1}, 4, 2047, 87);
}

BOOST_AUTO_TEST_CASE(two_matrices_of_a_chunk_have_the_bits_of_each_alone) {
  if (!has_device() || !exl3_takes_steps({384, 640, 3, Exl3Codebook::mul1})) return;
  check_pair({384, 640, 3, Exl3Codebook::mul1}, 128, 600, 88);
  check_pair({384, 128, 3, Exl3Codebook::mul1}, 640, 513, 89);  // the second one is the wider
  for (const int rows : {257, 2047}) check_pair({5120, 1280, 5, Exl3Codebook::mul1}, 512, rows, 90);
}

BOOST_AUTO_TEST_CASE(two_matrices_go_together_where_a_kernel_takes_the_rows_of_both) {
  Exl3Set set;
  set.count = 2;
  set.members[0].matrix.shape = {5120, 1280, 5, Exl3Codebook::mul1};
  set.members[1].matrix.shape = {5120, 512, 5, Exl3Codebook::mul1};
  BOOST_TEST(exl3_accepts_pair(set, 1));
  BOOST_TEST(exl3_accepts_pair(set, exl3_pair_rows_few));
  BOOST_TEST(!exl3_accepts_pair(set, exl3_pair_rows_few + 1));
  BOOST_TEST(!exl3_accepts_pair(set, exl3_rows_max));
  BOOST_TEST(exl3_accepts_pair(set, 2048) == exl3_takes_steps(set.members[0].matrix.shape));
  set.members[1].matrix.shape.bits = 4;
  BOOST_TEST(!exl3_accepts_pair(set, 1));
  BOOST_TEST(!exl3_accepts_pair(set, 2048));
}

// So a compressor's two matrices have the same bits together and alone.
BOOST_AUTO_TEST_CASE(two_narrow_matrices_divide_their_inputs_as_each_alone) {
  const Exl3Shape shape{5120, 512, 5, Exl3Codebook::mul1};
  const Exl3Split alone = exl3_split_single(shape), together = exl3_split_of_set(shape, 2);
  BOOST_TEST(alone.slices == together.slices);
  BOOST_TEST(alone.warps == together.warps);
}

BOOST_AUTO_TEST_CASE(a_chunk_is_close_to_double_precision) {
  if (!has_device()) return;
  Random random(79);
  const Exl3Shape shape{640, 256, 3, Exl3Codebook::mul1};
  const TestSet set(random, shape, 1, 129, true);
  const exl3_reference::Matrix& reference = set.matrices.front()->reference;
  const auto weights = exl3_reference::decode(reference);
  std::vector<Floats> products;
  for (const int block_rows : block_sizes(shape)) products.push_back(set.in_blocks(block_rows));
  if (exl3_takes_steps(shape)) products.push_back(set.in_blocks(exl3_block_rows(shape), Exl3Order::steps));
  for (const Floats& found : products) {
    for (int row = 0; row < set.rows; ++row) {
      const auto begin = set.host_x.front().begin() + row * shape.inputs;
      const std::vector<double> x(begin, begin + shape.inputs);
      const auto expected = exl3_reference::multiply(reference, weights, x.data());
      BOOST_TEST(row_error(found.data() + row * shape.outputs, expected) < chunk_tolerance, "row " << row);
    }
  }
}

BOOST_AUTO_TEST_CASE(blocks_of_another_size_are_refused) {
  if (!has_device()) return;
  Exl3Set set;
  set.count = 1;
  set.members[0].matrix.shape = {128, 128, 3, Exl3Codebook::mul1};
  for (const int block_rows : {0, 32, 96, 256}) {
    BOOST_TEST((exl3_multiply_blocks(nullptr, set, {}, 65, block_rows) == cudaErrorInvalidValue));
  }
  BOOST_TEST((exl3_multiply_blocks(nullptr, set, {}, 0, 64) == cudaErrorInvalidValue));
}

BOOST_AUTO_TEST_CASE(rows_in_the_order_of_steps_are_refused_where_no_kernel_takes_them) {
  if (!has_device()) return;
  constexpr Exl3Rotated in_steps{nullptr, nullptr, Exl3Order::steps};
  Exl3Set set;
  set.count = 1;
  set.members[0].matrix.shape = {128, 128, 3, Exl3Codebook::mul1};
  BOOST_TEST((exl3_multiply_blocks(nullptr, set, in_steps, 65, 64) == cudaErrorInvalidValue));
  set.members[0].matrix.shape.codebook = Exl3Codebook::mcg;
  BOOST_TEST((exl3_multiply_rotated(nullptr, set.members[0].matrix, in_steps, {}, 65) == cudaErrorInvalidValue));
  BOOST_TEST((exl3_order_of({5120, 16384, 3, Exl3Codebook::mcg}, 1, 2048) == Exl3Order::lanes));
  BOOST_TEST((exl3_order_of({5120, 16384, 3, Exl3Codebook::mul1}, 1, exl3_rows_max) == Exl3Order::lanes));
}

BOOST_AUTO_TEST_SUITE_END()
