// EXL3 products of whole chunks: the bits of the same rows taken at most 64 at a time, and close to double precision.
//
// Splits of the inputs differ by shape, codebook and launch: shapes here are chosen so that slices and chains have one
// group, several, unequal numbers of them and none.
#include <boost/test/unit_test.hpp>

#include <cmath>
#include <memory>
#include <string>

#include "gpu/cuda/exl3/exl3.hpp"
#include "gpu/cuda/exl3/split.hpp"
#include "gpu/numeric/bf16.hpp"
#include "tests/bench/cuda_exl3_reference.hpp"
#include "tests/cuda/device_fixture.hpp"

using namespace tandem::gpu;
using namespace tandem::gpu::cuda;
using namespace tandem::gpu::test;

namespace {

using Ints = std::vector<std::int32_t>;

// Of fp32 results, relative and in the mean of a row: what fp16 activations cost.
constexpr double chunk_tolerance = 4e-4;

template <class T>
DeviceMatrix on_device(const std::vector<T>& values) {
  Ints words((values.size() * sizeof(T) + 3) / 4);
  std::copy_n(reinterpret_cast<const unsigned char*>(values.data()), values.size() * sizeof(T),
              reinterpret_cast<unsigned char*>(words.data()));
  return {words, 1};
}

std::vector<std::uint16_t> halves(const std::vector<double>& values) {
  std::vector<std::uint16_t> result;
  for (const double value : values) result.push_back(float_to_f16(static_cast<float>(value)));
  return result;
}

exl3_reference::Matrix random_reference(Random& random, const Exl3Shape& shape, bool has_bias) {
  exl3_reference::Matrix m;
  m.inputs = shape.inputs;
  m.outputs = shape.outputs;
  m.bits = shape.bits;
  m.codebook = static_cast<exl3_reference::Codebook>(shape.codebook);
  const auto bytes = random.bytes(exl3_bytes(shape.inputs, shape.outputs, shape.bits));
  m.trellis.resize(bytes.size() / 2);
  std::copy(bytes.begin(), bytes.end(), reinterpret_cast<std::uint8_t*>(m.trellis.data()));
  const auto scales = [&](int count) {
    std::vector<double> result;
    for (const float value : random.floats(count)) {
      result.push_back(exl3_reference::round_to_half(value > 0 ? 0.03 : -0.02 + 0.001 * value));
    }
    return result;
  };
  m.suh = scales(shape.inputs);
  m.svh = scales(shape.outputs);
  if (has_bias) m.bias = scales(shape.outputs);
  return m;
}

// The checkpoint's words in the kernels' order.
std::vector<std::uint16_t> packed(const exl3_reference::Matrix& m) {
  constexpr int words_of_piece = 8;
  std::vector<std::uint16_t> words(m.trellis.size());
  for (std::size_t i = 0; i < words.size() / words_of_piece; ++i) {
    const auto tile = static_cast<std::int64_t>(i) / (2 * m.bits);
    const auto part = static_cast<int>(static_cast<std::int64_t>(i) % (2 * m.bits));
    const auto to = static_cast<std::size_t>(exl3_piece(m.inputs, m.outputs, m.bits, tile, part));
    std::copy_n(m.trellis.begin() + static_cast<std::ptrdiff_t>(i * words_of_piece), words_of_piece,
                words.begin() + static_cast<std::ptrdiff_t>(to * words_of_piece));
  }
  return words;
}

struct TestMatrix {
  exl3_reference::Matrix reference;
  DeviceMatrix words, suh, svh, bias;
  Exl3Matrix view;

  TestMatrix(Random& random, const Exl3Shape& shape, bool has_bias)
      : reference(random_reference(random, shape, has_bias)),
        words(on_device(packed(reference))),
        suh(on_device(halves(reference.suh))),
        svh(on_device(halves(reference.svh))),
        bias(on_device(halves(has_bias ? reference.bias : std::vector<double>(8)))),
        view{shape, words.tensor().data, suh.tensor().data, svh.tensor().data,
             has_bias ? bias.tensor().data : nullptr} {}
};

void check(cudaError_t error) {
  BOOST_REQUIRE(error == cudaSuccess);
}

// Everything that has been asked for is done when it returns.
void settle() {
  BOOST_REQUIRE(backends().cuda->wait().has_value());
  check(cudaStreamSynchronize(nullptr));
}

Exl3Rows rows_of(const Tensor& rows) {
  return {rows.data, Exl3Element::f32, static_cast<std::int32_t>(rows.cols), rows.stride, false};
}

struct Rotated {
  DeviceMatrix values, undo;

  Rotated(std::int64_t rows, std::int64_t inputs) : values(rows, inputs / 2), undo(rows, exl3_slices_max) {}
  Exl3Rotated view(Exl3Order order = Exl3Order::lanes) const {
    return {values.tensor().data, undo.tensor().row<float>(0), order};
  }
};

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
      result.members[i] = {matrices[i]->view, rows_of(x[i]->tensor().slice_rows(first, part)),
                           rows_of(y[i]->tensor().slice_rows(first, part))};
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

std::string name_of(const Exl3Shape& shape, int count, int rows) {
  return std::to_string(shape.inputs) + "x" + std::to_string(shape.outputs) + " K=" + std::to_string(shape.bits) +
         " codebook " + std::to_string(static_cast<int>(shape.codebook)) + ", " + std::to_string(count) + " of " +
         std::to_string(rows) + " rows";
}

std::vector<int> block_sizes(const Exl3Shape& shape) {
  if (exl3_block_rows(shape) == 64) return {64};
  return {64, 128};
}

void check_chunk(const Exl3Shape& shape, int count, int rows, std::uint32_t seed) {
  Random random(seed);
  const TestSet set(random, shape, count, rows, rows % 2 == 1);
  const std::string name = name_of(shape, count, rows);
  const Floats expected = set.in_steps(64);
  for (const int block_rows : block_sizes(shape)) {
    check_same(name + ", blocks of " + std::to_string(block_rows), expected, set.in_blocks(block_rows));
  }
  if (exl3_takes_steps(shape)) {
    check_same(name + ", by warpgroups", expected, set.in_blocks(exl3_block_rows(shape), Exl3Order::steps));
  }
  check_same(name + ", at once", expected, set.at_once());
}

double row_error(const float* found, const std::vector<double>& expected) {
  double difference = 0, size = 0;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    difference += (found[i] - expected[i]) * (found[i] - expected[i]);
    size += expected[i] * expected[i];
  }
  return std::sqrt(difference / size);
}

// Groups of a table, their rows in the order of the groups.
struct TestGroups {
  std::vector<std::unique_ptr<TestMatrix>> first, second;
  std::vector<Exl3Matrix> first_table, second_table;
  int rows = 0;

  TestGroups(Random& random, const std::vector<Exl3Shape>& shapes) {
    for (const Exl3Shape& shape : shapes) {
      first.push_back(std::make_unique<TestMatrix>(random, shape, false));
      second.push_back(std::make_unique<TestMatrix>(random, shape, false));
      first_table.push_back(first.back()->view);
      second_table.push_back(second.back()->view);
    }
  }

  // Products of both tables for groups of at most `rows_most` rows; `kinds`: the shapes in the tables.
  Floats run(const DeviceMatrix& x, const std::vector<Exl3Group>& groups, int rows_most,
             const std::vector<Exl3Shape>& kinds) const {
    Ints matrix_of_row;
    for (const Exl3Group& group : groups) matrix_of_row.insert(matrix_of_row.end(), group.rows, group.matrix);
    const auto row_count = static_cast<int>(matrix_of_row.size());
    const DeviceMatrix table(on_device(first_table)), other(on_device(second_table)), list(on_device(groups)),
        matrices(matrix_of_row, 1);
    const DeviceMatrix y(row_count, kinds.front().outputs), second_y(row_count, kinds.front().outputs);
    const Rotated rotated(2 * row_count, kinds.front().inputs);
    Exl3Groups lists;
    lists.table = static_cast<const Exl3Matrix*>(table.tensor().data);
    lists.second = static_cast<const Exl3Matrix*>(other.tensor().data);
    lists.groups = static_cast<const Exl3Group*>(list.tensor().data);
    lists.count = static_cast<std::int32_t>(groups.size());
    lists.rows_most = rows_most;
    lists.matrix_of_row = static_cast<const std::int32_t*>(matrices.tensor().data);
    settle();
    check(exl3_rotate_groups(nullptr, kinds.front(), lists, rows_of(x.tensor()), row_count, rotated.view()));
    for (const Exl3Shape& kind : kinds) {
      check(exl3_multiply_groups(nullptr, kind, lists, rotated.view(),
                                 {rows_of(y.tensor()), rows_of(second_y.tensor())}, row_count));
    }
    settle();
    Floats all = y.floats();
    const Floats more = second_y.floats();
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }
};

// The same rows in groups of at most `most`.
std::vector<Exl3Group> cut(const std::vector<Exl3Group>& groups, int most) {
  std::vector<Exl3Group> result;
  for (const Exl3Group& group : groups) {
    for (int done = 0; done < group.rows; done += most) {
      result.push_back({group.matrix, group.first + done, std::min(most, group.rows - done)});
    }
  }
  return result;
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

BOOST_AUTO_TEST_CASE(large_groups_have_the_bits_of_small_ones) {
  if (!has_device()) return;
  Random random(80);
  // Two slices of two chains; a second width whose groups another launch takes.
  const Exl3Shape shape{5120, 128, 3, Exl3Codebook::mul1}, wider{5120, 128, 2, Exl3Codebook::mul1};
  const TestGroups tables(random, {shape, wider, shape});
  const std::vector<Exl3Group> groups = {{2, 0, 128},  {1, 128, 70}, {0, 198, 64}, {1, 262, 33},
                                         {0, 295, 9},  {2, 304, 8},  {1, 312, 1},  {0, 313, 0},
                                         {2, 313, 41}, {1, 354, 32}, {0, 386, 20}};
  constexpr int rows = 406;
  const DeviceMatrix x(random.activations(std::int64_t{rows} * shape.inputs), rows);
  const Floats expected = tables.run(x, cut(groups, 16), 16, {shape, wider});
  check_same("groups of up to 128 rows", expected, tables.run(x, groups, 128, {shape, wider}));
  check_same("groups of up to 5 rows", expected, tables.run(x, cut(groups, 5), 5, {shape, wider}));
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
