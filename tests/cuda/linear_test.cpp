// Products over all weight formats: the device gives the CPU's bits for any shape and any number of rows.
#include <boost/test/unit_test.hpp>

#include "tests/cuda/device_fixture.hpp"

using namespace tandem::gpu;
using namespace tandem::gpu::test;

namespace {

struct Shape {
  std::int64_t rows, n, k;
};

const char* name_of(WeightFormat format) {
  switch (format) {
    case WeightFormat::bf16:
      return "bf16";
    case WeightFormat::f32:
      return "f32";
    case WeightFormat::fp8_block32:
      return "fp8";
    case WeightFormat::fp4_block32:
      return "fp4";
    case WeightFormat::exl3:
      break;
  }
  return "?";
}

std::string title(WeightFormat format, const Shape& shape) {
  return std::string(name_of(format)) + " " + std::to_string(shape.rows) + "x" + std::to_string(shape.n) + "x" +
         std::to_string(shape.k);
}

void check_linear(Random& random, WeightFormat format, const Shape& shape, LinearMode mode) {
  const Linear weight = random_linear(random, format, shape.n, shape.k);
  Floats x = random.activations(shape.rows * shape.k), y(static_cast<std::size_t>(shape.rows * shape.n));
  backends().cpu->linear(matrix(x, shape.rows), weight, mode, matrix(y, shape.rows));
  const DeviceMatrix device_x(x, shape.rows), device_y(shape.rows, shape.n);
  backends().cuda->linear(device_x, placed(weight), mode, device_y);
  check_same(title(format, shape) + (mode.q8 ? " q8" : ""), y, device_y.floats());
}

constexpr WeightFormat formats[] = {WeightFormat::f32, WeightFormat::bf16, WeightFormat::fp8_block32,
                                    WeightFormat::fp4_block32};

}  // namespace

BOOST_AUTO_TEST_SUITE(linear)

BOOST_AUTO_TEST_CASE(every_format_gives_the_cpu_bits_for_whole_and_odd_shapes) {
  if (!has_device()) return;
  for (const std::uint32_t seed : {1U, 2U}) {
    Random random(seed);
    for (const WeightFormat format : formats) {
      for (const Shape shape : {Shape{1, 1, 2},
                                {1, 1, 16},
                                {1, 64, 32},
                                {1, 65, 48},
                                {2, 63, 64},
                                {3, 33, 80},
                                {4, 128, 256},
                                {5, 17, 34},
                                {8, 100, 512},
                                {9, 31, 30},
                                {17, 24, 1040}}) {
        check_linear(random, format, shape, {false, true});
        check_linear(random, format, shape, {false, false});
        if (shape.k % 2 == 0) check_linear(random, format, shape, {true, true});
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(sizes_of_the_real_model_give_the_cpu_bits) {
  if (!has_device()) return;
  Random random(3);
  for (const std::int64_t rows : {1, 6}) {
    check_linear(random, WeightFormat::fp8_block32, {rows, 1280, 5120}, {true, true});
    check_linear(random, WeightFormat::fp4_block32, {rows, 1152, 5120}, {true, false});
    check_linear(random, WeightFormat::f32, {rows, 24, 20480}, {false, false});
    check_linear(random, WeightFormat::bf16, {rows, 384, 5120}, {false, false});
  }
}

// Tiles have 16 or 32 rows and 24, 32 or 64 outputs; inputs come in pieces of 64 to 256.
BOOST_AUTO_TEST_CASE(few_outputs_of_many_rows_give_the_cpu_bits) {
  if (!has_device()) return;
  Random random(7);
  for (const Shape shape :
       {Shape{255, 24, 1024}, {256, 24, 1024}, {257, 25, 1040}, {273, 1, 1072}, {271, 48, 1136}, {300, 23, 1152}}) {
    for (const bool round : {false, true}) check_linear(random, WeightFormat::f32, shape, {false, round});
  }
  for (const Shape shape : {Shape{127, 130, 1024},
                            {128, 130, 1024},
                            {129, 128, 1040},
                            {512, 32, 1072},
                            {513, 32, 1136},
                            {497, 33, 1056},
                            {260, 64, 1152},
                            {253, 65, 1088},
                            {515, 65, 1024},
                            {1536, 33, 1040},
                            {1537, 65, 1120}}) {
    for (const bool round : {false, true}) check_linear(random, WeightFormat::bf16, shape, {false, round});
  }
}

BOOST_AUTO_TEST_CASE(a_row_does_not_depend_on_the_rows_beside_it) {
  if (!has_device()) return;
  Random random(4);
  for (const WeightFormat format : formats) {
    const Linear weight = placed(random_linear(random, format, 96, 160));
    const Floats x = random.activations(16 * 160);
    const DeviceMatrix all(x, 16), together(16, 96);
    backends().cuda->linear(all, weight, {true, true}, together);
    for (const std::int64_t row : {0, 7, 15}) {
      const DeviceMatrix alone(1, 96);
      backends().cuda->linear(all.tensor().slice_rows(row, 1), weight, {true, true}, alone);
      const Floats expected = together.floats();
      check_same(name_of(format), Floats(expected.begin() + row * 96, expected.begin() + (row + 1) * 96),
                 alone.floats());
    }
  }
}

BOOST_AUTO_TEST_CASE(slices_of_wider_rows_are_read_and_written_where_they_lie) {
  if (!has_device()) return;
  Random random(5);
  for (const std::int64_t offset : {64, 3}) {
    const Linear weight = random_linear(random, WeightFormat::fp8_block32, 48, 96);
    Floats x = random.activations(5 * 200), y(5 * 100, 7.0F);
    const Tensor host_y = matrix(y, 5);
    const DeviceMatrix device_x(x, 5), device_y(y, 5);
    backends().cpu->linear(matrix(x, 5).slice_cols(offset, 96), weight, {}, host_y.slice_cols(offset / 3, 48));
    backends().cuda->linear(device_x.tensor().slice_cols(offset, 96), placed(weight), {},
                            device_y.tensor().slice_cols(offset / 3, 48));
    check_same("slice at " + std::to_string(offset), y, device_y.floats());
  }
}

BOOST_AUTO_TEST_CASE(partial_products_are_the_slices_products_one_below_the_other) {
  if (!has_device()) return;
  Random random(6);
  for (const std::int64_t slices : {1, 2}) {
    for (const std::int64_t rows : {1, 7}) {
      PartialLinear weight;
      weight.n = 80;
      for (std::int64_t s = 0; s < slices; ++s) {
        weight.slices.push_back(random_linear(random, WeightFormat::fp8_block32, 80, 64));
        weight.k_local += 64;
      }
      Floats x = random.activations(rows * weight.k_local), y(static_cast<std::size_t>(slices * rows * 80));
      backends().cpu->partial_linear(matrix(x, rows), weight, {true, false}, matrix(y, slices * rows));
      const DeviceMatrix device_x(x, rows), device_y(slices * rows, 80);
      backends().cuda->partial_linear(device_x, placed(weight), {true, false}, device_y);
      check_same("partial", y, device_y.floats());
    }
  }
}

BOOST_AUTO_TEST_CASE(no_rows_and_no_weights_do_nothing) {
  if (!has_device()) return;
  const DeviceMatrix none(0, 32);
  backends().cuda->linear(none, Linear{}, {}, none);
  BOOST_TEST(backends().cuda->wait().has_value());
}

BOOST_AUTO_TEST_SUITE_END()
