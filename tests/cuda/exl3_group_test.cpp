// EXL3 products of groups of rows, as experts have them: the same bits whatever the groups and the order of their rows.
//
// Splits of the inputs differ by shape: shapes here are chosen so that slices and chains have one group, several,
// unequal numbers of them and none.
#include <boost/test/unit_test.hpp>

#include <memory>

#include "tests/cuda/exl3_fixture.hpp"

using namespace tandem::gpu;
using namespace tandem::gpu::cuda;
using namespace tandem::gpu::test;

namespace {

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
             const std::vector<Exl3Shape>& kinds, Exl3Order order = Exl3Order::lanes) const {
    Ints matrix_of_row;
    for (const Exl3Group& group : groups) matrix_of_row.insert(matrix_of_row.end(), group.rows, group.matrix);
    const auto row_count = static_cast<int>(matrix_of_row.size());
    const DeviceMatrix table(on_device(first_table)), other(on_device(second_table)), list(on_device(groups)),
        matrices(matrix_of_row, 1);
    const DeviceMatrix y(row_count, kinds.front().outputs), second_y(row_count, kinds.front().outputs);
    const Rotated memory(2 * row_count, kinds.front().inputs);
    const Exl3Rotated rotated = memory.view(order);
    Exl3Groups lists;
    lists.table = static_cast<const Exl3Matrix*>(table.tensor().data);
    lists.second = static_cast<const Exl3Matrix*>(other.tensor().data);
    lists.groups = static_cast<const Exl3Group*>(list.tensor().data);
    lists.count = static_cast<std::int32_t>(groups.size());
    lists.rows_most = rows_most;
    lists.matrix_of_row = static_cast<const std::int32_t*>(matrices.tensor().data);
    settle();
    check(exl3_rotate_groups(nullptr, kinds.front(), lists, exl3_rows(x.tensor()), row_count, rotated));
    for (const Exl3Shape& kind : kinds) {
      check(exl3_multiply_groups(nullptr, kind, lists, rotated, {exl3_rows(y.tensor()), exl3_rows(second_y.tensor())},
                                 row_count));
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

BOOST_AUTO_TEST_SUITE(exl3_groups)

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

namespace {

// Whether this build has kernels for rows in the order of steps.
bool has_steps(const Exl3Shape& shape) {
  return exl3_group_order(shape, exl3_chunk_rows_max) == Exl3Order::steps;
}

// Groups of every size that a warpgroup's kernel cuts differently, among them empty places at the end.
std::vector<Exl3Group> many_sizes(int matrices, int& rows) {
  std::vector<Exl3Group> groups;
  rows = 0;
  for (const int size : {64, 1, 7, 8, 9, 16, 17, 63, 24, 25, 33, 40, 41, 48, 49, 56, 57, 0, 64, 2, 0, 0}) {
    groups.push_back({static_cast<int>(groups.size()) % matrices, rows, size});
    rows += size;
  }
  return groups;
}

void check_steps(const Exl3Shape& shape, std::uint32_t seed) {
  Random random(seed);
  Exl3Shape other = shape;
  other.bits = shape.bits % 8 + 1;
  const TestGroups tables(random, {shape, other, shape});
  int rows = 0;
  const std::vector<Exl3Group> groups = many_sizes(3, rows);
  const DeviceMatrix x(random.activations(std::int64_t{rows} * shape.inputs), rows);
  const Floats expected = tables.run(x, cut(groups, 8), 8, {shape, other});
  const std::string name = exl3_name(shape, 2, rows);
  check_same(name + ", in the order of steps", expected, tables.run(x, groups, 64, {shape, other}, Exl3Order::steps));
  const Floats few = tables.run(x, cut(groups, 3), 3, {shape, other}, Exl3Order::steps);
  check_same(name + ", three rows at most", expected, few);
}

}  // namespace

BOOST_AUTO_TEST_CASE(groups_in_the_order_of_steps_have_the_bits_of_those_in_the_order_of_lanes) {
  if (!has_device() || !has_steps({128, 128, 3, Exl3Codebook::mul1})) return;
  for (int bits = 1; bits <= 8; ++bits) {
    check_steps({1152, 256, bits, Exl3Codebook::mul1}, 81U + static_cast<std::uint32_t>(bits));
  }
  check_steps({5120, 128, 2, Exl3Codebook::mul1}, 90);  // two slices
  check_steps({5248, 128, 3, Exl3Codebook::mul1}, 91);  // of unequal length
  check_steps({128, 128, 3, Exl3Codebook::mul1}, 92);   // chains without a group
  check_steps({256, 384, 2, Exl3Codebook::mul1}, 93);   // of one group
  check_steps({7680, 128, 4, Exl3Codebook::mul1}, 94);  // three slices
}

BOOST_AUTO_TEST_CASE(large_groups_in_the_order_of_steps_are_refused) {
  if (!has_device()) return;
  const Exl3Shape shape{128, 128, 3, Exl3Codebook::mul1};
  const Exl3Matrix matrix;
  const Exl3Group group;
  Exl3Groups groups;
  groups.table = &matrix;
  groups.groups = &group;
  groups.count = 1;
  groups.rows_most = 65;
  Exl3Rotated rotated;
  rotated.order = Exl3Order::steps;
  BOOST_TEST((exl3_multiply_groups(nullptr, shape, groups, rotated, {}, 65) == cudaErrorInvalidValue));
}

namespace {

// Rows of x rotated for the matrices of their uses: row by row, or each once for all of its uses.
void check_rotation_of_uses(const Exl3Shape& shape, int row_count, int slots, Exl3Order order) {
  Random random(95);
  const TestGroups tables(random, {shape, shape, shape});
  const int uses = row_count * slots;
  Ints row_of_use, source_of_row(static_cast<std::size_t>(uses)), matrix_of_row;
  for (int use = 0; use < uses; ++use) {
    row_of_use.push_back((use * 7 + 5) % uses);
    source_of_row[static_cast<std::size_t>(row_of_use.back())] = use / slots;
    matrix_of_row.push_back(static_cast<std::int32_t>(random.below(3)));
  }
  const DeviceMatrix x(random.activations(std::int64_t{row_count} * shape.inputs), row_count);
  const DeviceMatrix table(on_device(tables.first_table)), other(on_device(tables.second_table)),
      matrices(matrix_of_row, 1), sources(source_of_row, 1), places(row_of_use, 1);
  const Rotated by_rows(2 * uses, shape.inputs), by_uses(2 * uses, shape.inputs);
  Exl3Groups groups;
  groups.table = static_cast<const Exl3Matrix*>(table.tensor().data);
  groups.second = static_cast<const Exl3Matrix*>(other.tensor().data);
  groups.matrix_of_row = static_cast<const std::int32_t*>(matrices.tensor().data);
  groups.source_of_row = static_cast<const std::int32_t*>(sources.tensor().data);
  settle();
  check(exl3_rotate_groups(nullptr, shape, groups, exl3_rows(x.tensor()), uses, by_rows.view(order)));
  groups.row_of_use = static_cast<const std::int32_t*>(places.tensor().data);
  groups.slots = slots;
  check(exl3_rotate_groups(nullptr, shape, groups, exl3_rows(x.tensor()), uses, by_uses.view(order)));
  settle();
  const auto bytes = [](const DeviceMatrix& matrix) {
    const Tensor& all = matrix.tensor();
    return bytes_on_host(all.data, static_cast<std::size_t>(all.rows * all.cols) * sizeof(float));
  };
  BOOST_TEST((bytes(by_rows.values) == bytes(by_uses.values)), exl3_name(shape, slots, row_count) << ": rotated rows");
  BOOST_TEST((bytes(by_rows.undo) == bytes(by_uses.undo)), exl3_name(shape, slots, row_count) << ": undo");
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_row_rotated_once_for_all_its_uses_has_the_bits_of_each_use_alone) {
  if (!has_device()) return;
  for (const Exl3Order order : {Exl3Order::lanes, Exl3Order::steps}) {
    check_rotation_of_uses({1152, 128, 2, Exl3Codebook::mul1}, 40, 3, order);
    check_rotation_of_uses({5120, 128, 2, Exl3Codebook::mul1}, 33, 6, order);
    check_rotation_of_uses({128, 128, 2, Exl3Codebook::mul1}, 64, 1, order);
  }
}

BOOST_AUTO_TEST_SUITE_END()
