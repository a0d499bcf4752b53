// Rotated rows of EXL3 products: many at once have the bits of each row alone, in either order of the inputs.
#include <boost/test/unit_test.hpp>

#include <string>

#include "gpu/cuda/exl3/exl3.hpp"
#include "gpu/numeric/bf16.hpp"
#include "tests/cuda/device_fixture.hpp"

using namespace tandem::gpu;
using namespace tandem::gpu::cuda;
using namespace tandem::gpu::test;

namespace {

struct RotationCase {
  int inputs, parts, rows;
  int columns = 0;  // of x; 0: all inputs
  Exl3Element element = Exl3Element::f32;
};

std::string name_of(const RotationCase& test) {
  return std::to_string(test.rows) + " rows of " + std::to_string(test.inputs) + " for " + std::to_string(test.parts);
}

using Words = std::vector<std::int32_t>;

DeviceMatrix halves_on_device(const Floats& values, Exl3Element element) {
  Words words((values.size() + 1) / 2);
  auto* halves = reinterpret_cast<std::uint16_t*>(words.data());
  for (const float value : values) {
    *halves++ = element == Exl3Element::bf16 ? float_to_bf16(value) : float_to_f16(value);
  }
  return {words, 1};
}

// Rows of x with one that is zero and one that is large.
Floats rows_of_inputs(Random& random, std::int64_t rows, std::int64_t columns) {
  Floats x = random.activations(rows * columns);
  for (std::int64_t i = 0; i < columns; ++i) {
    x[static_cast<std::size_t>(i)] *= 4096;
    if (rows > 1) x[static_cast<std::size_t>((rows - 1) * columns + i)] = 0;
  }
  return x;
}

struct Part {
  Part(Random& random, const RotationCase& test)
      : columns(test.columns == 0 ? test.inputs : test.columns),
        element(test.element),
        suh(halves_on_device(random.floats(test.inputs), Exl3Element::f16)),
        x(make_x(random, test)) {}

  DeviceMatrix make_x(Random& random, const RotationCase& test) const {
    const Floats values = rows_of_inputs(random, test.rows, columns);
    return element == Exl3Element::f32 ? DeviceMatrix(values, test.rows) : halves_on_device(values, element);
  }
  Exl3Matrix matrix(int inputs) const {
    Exl3Matrix result;
    result.shape = {inputs, 128, 3, Exl3Codebook::mul1};
    result.suh = suh.tensor().data;
    return result;
  }
  Exl3Rows rows(std::int64_t first) const {
    const std::int64_t bytes = element == Exl3Element::f32 ? 4 : 2;
    auto* begin = static_cast<std::byte*>(x.tensor().data) + first * columns * bytes;
    return {begin, element, columns, columns, false};
  }

  int columns;
  Exl3Element element;
  DeviceMatrix suh, x;
};

void finish(cudaError_t error) {
  BOOST_REQUIRE(error == cudaSuccess);
  BOOST_REQUIRE(cudaStreamSynchronize(nullptr) == cudaSuccess);
}

struct RotatedRows {
  RotatedRows(std::int64_t rows, std::int64_t inputs)
      : values(rows, inputs / 2, DType::i32), undo(rows, exl3_slices_max, DType::i32) {
    BOOST_REQUIRE(backends().cuda->wait().has_value());
  }
  Exl3Rotated view(Exl3Order order = Exl3Order::lanes) const {
    return {values.tensor().data, static_cast<float*>(undo.tensor().data), order};
  }

  DeviceMatrix values, undo;
};

// Words of row `row` of `all`.
Words row_words(const Words& all, std::int64_t row, std::size_t width) {
  const auto begin = all.begin() + row * static_cast<std::ptrdiff_t>(width);
  return {begin, begin + static_cast<std::ptrdiff_t>(width)};
}

// Both orders hold the same values at the places that layout.hpp names.
template <class Rotate>
void check_order(const RotationCase& test, const RotatedRows& lanes, const Rotate& rotate) {
  const std::int64_t count = std::int64_t{test.parts} * test.rows;
  const RotatedRows steps(count, test.inputs);
  finish(rotate(0, test.rows, steps.view(Exl3Order::steps)));
  const Words words = lanes.values.ints(), step_words = steps.values.ints();
  const auto half = [](const Words& from, std::int64_t i) {
    return static_cast<std::uint32_t>(from[static_cast<std::size_t>(i / 2)]) >> (i % 2 * 16) & 0xFFFFU;
  };
  std::int64_t wrong = 0;
  for (std::int64_t row = 0; row < count; ++row) {
    for (std::int64_t i = 0; i < test.inputs; ++i) {
      const std::int64_t first = row * test.inputs;
      wrong += half(words, first + exl3_rotated_index(i)) == half(step_words, first + exl3_step_index(i)) ? 0 : 1;
    }
  }
  BOOST_TEST(wrong == 0, name_of(test) + " in the order of steps");
  BOOST_TEST((lanes.undo.ints() == steps.undo.ints()));
}

// `rotate` takes the first of some rows, their number and where they go.
template <class Rotate>
void check_rotation(const RotationCase& test, const Rotate& rotate) {
  const RotatedRows all(std::int64_t{test.parts} * test.rows, test.inputs);
  finish(rotate(0, test.rows, all.view()));
  const Words values = all.values.ints(), undo = all.undo.ints();
  const auto width = static_cast<std::size_t>(test.inputs / 2);
  int wrong = 0;
  for (int row = 0; row < test.rows; ++row) {
    const RotatedRows alone(test.parts, test.inputs);
    finish(rotate(row, 1, alone.view()));
    const Words own_values = alone.values.ints(), own_undo = alone.undo.ints();
    for (int part = 0; part < test.parts; ++part) {
      const std::int64_t place = std::int64_t{part} * test.rows + row;
      const bool is_same = row_words(values, place, width) == row_words(own_values, part, width) &&
                           row_words(undo, place, exl3_slices_max) == row_words(own_undo, part, exl3_slices_max);
      wrong += is_same ? 0 : 1;
    }
  }
  BOOST_TEST(wrong == 0, name_of(test));
  check_order(test, all, rotate);
}

void check_set(const RotationCase& test, std::uint32_t seed) {
  Random random(seed);
  std::vector<Part> parts;
  for (int i = 0; i < test.parts; ++i) parts.emplace_back(random, test);
  check_rotation(test, [&](int first, int rows, Exl3Rotated rotated) {
    Exl3Set set;
    set.count = test.parts;
    for (int i = 0; i < test.parts; ++i) {
      const Part& part = parts[static_cast<std::size_t>(i)];
      set.members[i] = {part.matrix(test.inputs), part.rows(first), {}};
    }
    return exl3_rotate_set(nullptr, set, rows, rotated);
  });
}

// Three matrices a table, rows of x in any order.
void check_groups(const RotationCase& test, std::uint32_t seed) {
  constexpr int matrices = 3;
  Random random(seed);
  const Part source(random, test);
  std::vector<Part> parts;
  Words table_words, matrix_of_row, source_of_row;
  for (int i = 0; i < 2 * matrices; ++i) {
    parts.emplace_back(random, RotationCase{test.inputs, 1, 1});
    const Exl3Matrix matrix = parts.back().matrix(test.inputs);
    const auto* words = reinterpret_cast<const std::int32_t*>(&matrix);
    table_words.insert(table_words.end(), words, words + sizeof(Exl3Matrix) / sizeof(std::int32_t));
  }
  for (int row = 0; row < test.rows; ++row) {
    matrix_of_row.push_back(static_cast<std::int32_t>(random.below(matrices)));
    source_of_row.push_back(static_cast<std::int32_t>(random.below(test.rows)));
  }
  const DeviceMatrix table(table_words, 1), matrix_list(matrix_of_row, 1), source_list(source_of_row, 1);
  check_rotation(test, [&](int first, int rows, Exl3Rotated rotated) {
    Exl3Groups groups;
    groups.table = static_cast<const Exl3Matrix*>(table.tensor().data);
    if (test.parts == 2) groups.second = groups.table + matrices;
    groups.matrix_of_row = static_cast<const std::int32_t*>(matrix_list.tensor().data) + first;
    groups.source_of_row = static_cast<const std::int32_t*>(source_list.tensor().data) + first;
    const Exl3Shape shape = {test.inputs, 128, 3, Exl3Codebook::mul1};
    return exl3_rotate_groups(nullptr, shape, groups, source.rows(0), rows, rotated);
  });
}

}  // namespace

BOOST_AUTO_TEST_SUITE(exl3_rotation)

BOOST_AUTO_TEST_CASE(each_order_of_a_group_names_every_place_once) {
  for (const Exl3Order order : {Exl3Order::lanes, Exl3Order::steps}) {
    std::vector<int> found(2 * exl3_group);
    for (std::int64_t i = 0; i < 2 * exl3_group; ++i) {
      const std::int64_t place = exl3_input_index(order, i);
      BOOST_TEST_REQUIRE(place / exl3_group == i / exl3_group);
      ++found[static_cast<std::size_t>(place)];
    }
    BOOST_TEST((found == std::vector<int>(2 * exl3_group, 1)));
  }
}

BOOST_AUTO_TEST_CASE(few_rows_lie_in_either_order) {
  if (!has_device()) return;
  check_set({640, 2, 3}, 94);
}

BOOST_AUTO_TEST_CASE(many_rows_of_a_set_have_the_bits_of_each_alone) {
  if (!has_device()) return;
  check_set({128, 1, 64}, 81);
  check_set({128, 4, 67}, 82);    // 32 rows a block, the last block has three
  check_set({1152, 1, 100}, 83);  // 9 Hadamard blocks a row: warps between two rows, slices of one or two blocks
  check_set({640, 3, 65}, 84);
  check_set({5120, 2, 65}, 85);
  check_set({16384, 1, 64}, 86);
  check_set({2560, 4, 515}, 87);  // three rows a block, one after the other; two in the last one
}

BOOST_AUTO_TEST_CASE(rows_of_every_element_and_width_have_the_bits_of_each_alone) {
  if (!has_device()) return;
  for (const Exl3Element element : {Exl3Element::f32, Exl3Element::f16, Exl3Element::bf16}) {
    check_set({640, 1, 65, 0, element}, 87);
    check_set({640, 1, 65, 600, element}, 88);
    check_set({256, 1, 65, 131, element}, 89);
  }
}

BOOST_AUTO_TEST_CASE(many_rows_of_groups_have_the_bits_of_each_alone) {
  if (!has_device()) return;
  check_groups({128, 2, 70}, 90);
  check_groups({1152, 1, 71}, 91);
  check_groups({5120, 2, 66}, 92);
  check_groups({2560, 2, 1057}, 93);  // four rows a block, one in the last one
}

BOOST_AUTO_TEST_SUITE_END()
