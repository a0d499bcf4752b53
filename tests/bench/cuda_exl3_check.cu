// check_cuda_exl3 [brief]: the EXL3 kernels against the double-precision reference, on whatever GPU is there.
//
// Prints one line a check and ends with 1 if any failed; `brief` takes few shapes, for the slow tools that watch
// memory. Bounds: fp32 output within 4e-4 of the exact product (relative rms, what fp16 activations cost), bf16 within
// 4e-3; decoded weights and all statements about independence hold bit for bit.
#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

#include "tests/bench/cuda_exl3_device.cuh"

using namespace exl3_device;

namespace {

int failures = 0;

void expect(bool holds, const std::string& what) {
  if (!holds) ++failures;
  std::printf("%s %s\n", holds ? "ok  " : "FAIL", what.c_str());
}

std::string name_of(const Exl3Shape& shape, int rows) {
  static const char* const codebooks[] = {"3inst", "mcg", "mul1"};
  return std::to_string(shape.inputs) + "x" + std::to_string(shape.outputs) + " K=" + std::to_string(shape.bits) + " " +
         codebooks[static_cast<int>(shape.codebook)] + " M=" + std::to_string(rows);
}

std::vector<float> random_rows(int rows, int inputs, std::mt19937& random) {
  std::normal_distribution<float> normal;
  std::vector<float> x(static_cast<std::size_t>(rows) * inputs);
  for (int r = 0; r < rows; ++r) {
    const float scale = std::ldexp(1.0f, static_cast<int>(random() % 24) - 12);
    for (int i = 0; i < inputs; ++i) x[static_cast<std::size_t>(r) * inputs + i] = scale * normal(random);
  }
  return x;
}

enum class Way { whole, halves };  // exl3_multiply, or rotation and product apart

// y = x times the matrix, all fp32.
std::vector<float> run(const DeviceMatrix& matrix, const std::vector<float>& x, int rows, Way way = Way::whole) {
  const Exl3Shape& shape = matrix.view.shape;
  const Array<float> in(x);
  const Array<float> out(static_cast<std::size_t>(rows) * shape.outputs);
  const DeviceRotated scratch(rows, shape.inputs);
  const Exl3Rows in_rows{in.get(), Exl3Element::f32, shape.inputs, shape.inputs};
  const Exl3Rows out_rows{out.get(), Exl3Element::f32, shape.outputs, shape.outputs};
  if (way == Way::whole) {
    require(exl3_multiply(nullptr, matrix.view, in_rows, out_rows, rows, scratch.view()), "exl3_multiply");
  } else {
    require(exl3_rotate(nullptr, matrix.view, in_rows, rows, scratch.view()), "exl3_rotate");
    require(exl3_multiply_rotated(nullptr, matrix.view, scratch.view(), out_rows, rows), "exl3_multiply_rotated");
  }
  require(cudaDeviceSynchronize(), "product");
  return out.read();
}

// Largest relative rms error of a row.
template <class T>
double worst_error(const std::vector<T>& y, const std::vector<std::vector<double>>& exact) {
  double worst = 0;
  for (std::size_t r = 0; r < exact.size(); ++r) {
    double error = 0, size = 0;
    for (std::size_t j = 0; j < exact[r].size(); ++j) {
      const double difference = static_cast<float>(y[r * exact[r].size() + j]) - exact[r][j];
      error += difference * difference;
      size += exact[r][j] * exact[r][j];
    }
    const double relative = std::sqrt(error / size);
    worst = relative > worst || std::isnan(relative) ? relative : worst;
  }
  return worst;
}

bool same_bits(const float* a, const float* b, std::size_t count) {
  return std::memcmp(a, b, count * 4) == 0;
}

// Products of 64 rows and of the first M rows: right, and the same bits for every M.
void check_products(const Exl3Shape& shape, bool with_bias, std::mt19937& random) {
  const auto reference = random_matrix(shape, with_bias, random);
  const DeviceMatrix matrix(shape, reference);
  const auto x = random_rows(64, shape.inputs, random);
  const auto weights = exl3_reference::decode(reference);
  std::vector<std::vector<double>> exact;
  for (int r = 0; r < 64; ++r) {
    const std::vector<double> row(x.begin() + r * shape.inputs, x.begin() + (r + 1) * shape.inputs);
    exact.push_back(exl3_reference::multiply(reference, weights, row.data()));
  }
  const auto all = run(matrix, x, 64);
  const double error = worst_error(all, exact);
  char text[32];
  std::snprintf(text, sizeof text, "%.2e", error);
  expect(error < 4e-4, name_of(shape, 64) + " f32 relative error " + text);
  bool same = true;
  for (const int rows : {1, 2, 3, 4, 5, 6, 8, 9, 15, 16, 17, 32, 33, 63}) {
    const int first = static_cast<int>(random() % (65 - rows));
    const std::vector<float> part(x.begin() + first * shape.inputs, x.begin() + (first + rows) * shape.inputs);
    const auto count = static_cast<std::size_t>(rows) * shape.outputs;
    for (const Way way : {Way::whole, Way::halves}) {
      const auto y = run(matrix, part, rows, way);
      same = same && same_bits(y.data(), all.data() + static_cast<std::size_t>(first) * shape.outputs, count);
    }
  }
  expect(same, name_of(shape, 1) + "..63: a row's bits do not depend on the rows beside it");
}

// More rows than one block takes: right, and the bits that their first 64 and the others have as steps.
void check_chunk(const Exl3Shape& shape, int rows, std::mt19937& random) {
  const auto reference = random_matrix(shape, true, random);
  const DeviceMatrix matrix(shape, reference);
  const auto x = random_rows(rows, shape.inputs, random);
  const auto weights = exl3_reference::decode(reference);
  std::vector<std::vector<double>> exact;
  for (int r = 0; r < rows; ++r) {
    const std::vector<double> row(x.begin() + r * shape.inputs, x.begin() + (r + 1) * shape.inputs);
    exact.push_back(exl3_reference::multiply(reference, weights, row.data()));
  }
  const auto all = run(matrix, x, rows);
  bool same = true;
  for (int first = 0; first < rows; first += 64) {
    const int part = std::min(64, rows - first);
    const auto y = run(matrix, {x.begin() + first * shape.inputs, x.begin() + (first + part) * shape.inputs}, part);
    same = same && same_bits(y.data(), all.data() + static_cast<std::size_t>(first) * shape.outputs,
                             static_cast<std::size_t>(part) * shape.outputs);
  }
  expect(worst_error(all, exact) < 4e-4 && same, name_of(shape, rows) + " is right and has the bits of its steps");
}

// Every weight, exactly: one-hot rotated rows, unit scales; the output transform is undone on the host.
void check_decode(int bits, Exl3Codebook codebook, std::mt19937& random) {
  const Exl3Shape shape{128, 256, bits, codebook};
  auto reference = random_matrix(shape, false, random);
  std::fill(reference.svh.begin(), reference.svh.end(), 1.0);
  const DeviceMatrix matrix(shape, reference);
  const auto weights = exl3_reference::decode(reference);
  int wrong = 0;
  for (int first = 0; first < 128; first += 64) {
    std::vector<__half> one_hot(64 * 128, __float2half(0.0f));
    for (int r = 0; r < 64; ++r) one_hot[r * 128 + exl3_rotated_index(first + r)] = __float2half(1.0f);
    const Array<__half> values(one_hot);
    const Array<float> undo(std::vector<float>(64 * exl3_slices_max, 1.0f)), out(64 * 256);
    require(exl3_multiply_rotated(nullptr, matrix.view, {values.get(), undo.get()},
                                  {out.get(), Exl3Element::f32, 256, 256}, 64),
            "exl3_multiply_rotated");
    const auto y = out.read();
    for (int r = 0; r < 64; ++r) {
      std::vector<double> row(y.begin() + r * 256, y.begin() + (r + 1) * 256);
      exl3_reference::transform(row.data(), 256);
      for (int j = 0; j < 256; ++j) {
        if (!(std::abs(row[j] - weights[(first + r) * 256 + j]) < 2e-5)) ++wrong;
      }
    }
  }
  expect(wrong == 0, name_of(shape, 64) + " weights decoded exactly, wrong: " + std::to_string(wrong));
}

// Element types, rows narrower than the matrix, zero and non-finite rows.
void check_rows(std::mt19937& random) {
  const Exl3Shape shape{384, 256, 4, Exl3Codebook::mul1};
  const int columns = 300, outputs = 200, rows = 5;
  const auto reference = random_matrix(shape, true, random);
  const DeviceMatrix matrix(shape, reference);
  const auto weights = exl3_reference::decode(reference);
  std::vector<__nv_bfloat16> x(rows * columns, __float2bfloat16(0.0f));
  std::vector<std::vector<double>> exact;
  std::normal_distribution<float> normal;
  for (int r = 0; r < rows; ++r) {
    std::vector<double> row(shape.inputs, 0.0);
    for (int i = 0; i < columns; ++i) {
      if (r != 1) x[r * columns + i] = __float2bfloat16(1e5f * normal(random));  // beyond fp16; row 1 is all zeros
      row[i] = __bfloat162float(x[r * columns + i]);
    }
    exact.push_back(exl3_reference::multiply(reference, weights, row.data()));
    exact.back().resize(outputs);
  }
  const DeviceRotated rotated(rows, shape.inputs);
  const auto product = [&](auto&& out, Exl3Element element) {
    const Array<__nv_bfloat16> in(x);
    require(exl3_multiply(nullptr, matrix.view, {in.get(), Exl3Element::bf16, columns, columns},
                          {out.get(), element, outputs, outputs}, rows, rotated.view()),
            "exl3_multiply");
    return out.read();
  };
  const auto f32 = product(Array<float>(rows * outputs), Exl3Element::f32);
  expect(worst_error(f32, exact) < 4e-4, "bf16 rows of 300 for 384 inputs, f32 rows of 200 for 256 outputs");
  expect(worst_error(product(Array<__nv_bfloat16>(rows * outputs), Exl3Element::bf16), exact) < 4e-3, "bf16 output");
  x[2 * columns + 7] = __float2bfloat16(INFINITY);
  const auto broken = product(Array<float>(rows * outputs), Exl3Element::f32);
  bool others = true, lost = true;
  for (int r = 0; r < rows; ++r) {
    if (r != 2) others = others && same_bits(&f32[r * outputs], &broken[r * outputs], outputs);
  }
  for (int j = 0; j < outputs; ++j) lost = lost && !std::isfinite(broken[2 * outputs + j]);
  expect(others && lost, "a row that is not finite stays so and touches no other row");
}

// Experts of two widths in one table, uneven row lists, gathered rows.
struct Experts {
  static constexpr int rows = 23, sources = 9, most = 17;
  Exl3Shape shape{5120, 256, 3, Exl3Codebook::mul1};
  Exl3Shape other{5120, 256, 2, Exl3Codebook::mul1};
  std::vector<exl3_reference::Matrix> references;
  std::vector<DeviceMatrix> matrices;
  std::vector<Exl3Matrix> table;
  std::vector<float> x;
  std::vector<Exl3Group> groups = {{4, 0, 3}, {0, 3, most}, {3, 20, 2}, {2, 0, 0}, {1, 22, 1}};
  std::vector<std::int32_t> matrix_of_row, source_of_row;

  explicit Experts(std::mt19937& random) : matrix_of_row(rows), source_of_row(rows) {
    for (int i = 0; i < 5; ++i) {
      const Exl3Shape& kind = i == 3 ? other : shape;
      references.push_back(random_matrix(kind, i == 1, random));
      matrices.emplace_back(kind, references.back());
      table.push_back(matrices.back().view);
    }
    for (const auto& group : groups) std::fill_n(matrix_of_row.begin() + group.first, group.rows, group.matrix);
    for (auto& source : source_of_row) source = static_cast<std::int32_t>(random() % sources);
    x = random_rows(sources, shape.inputs, random);
  }

  // All rows through the given groups, at most `rows_most` rows in one.
  std::vector<float> run(const std::vector<Exl3Group>& chosen, int rows_most) const {
    const Array<float> in(x), out(static_cast<std::size_t>(rows) * shape.outputs);
    const Array<Exl3Matrix> device_table(table);
    const Array<Exl3Group> device_groups(chosen);
    const Array<std::int32_t> device_matrix(matrix_of_row), device_source(source_of_row);
    const DeviceRotated rotated(rows, shape.inputs);
    const Exl3Groups lists{device_table.get(), device_groups.get(), static_cast<int>(chosen.size()),
                           rows_most,          device_matrix.get(), device_source.get()};
    const Exl3Rows in_rows{in.get(), Exl3Element::f32, shape.inputs, shape.inputs};
    const Exl3Rows out_rows{out.get(), Exl3Element::f32, shape.outputs, shape.outputs};
    require(exl3_rotate_groups(nullptr, shape, lists, in_rows, rows, rotated.view()), "exl3_rotate_groups");
    for (const Exl3Shape& kind : {shape, other}) {
      require(exl3_multiply_groups(nullptr, kind, lists, rotated.view(), {out_rows, {}}, rows), "exl3_multiply_groups");
    }
    return out.read();
  }
};

void check_groups(std::mt19937& random) {
  const Experts experts(random);
  const auto y = experts.run(experts.groups, Experts::most);
  std::vector<std::vector<double>> exact;
  std::vector<Exl3Group> single;
  for (int r = 0; r < Experts::rows; ++r) {
    const auto& reference = experts.references[experts.matrix_of_row[r]];
    const auto begin = experts.x.begin() + experts.source_of_row[r] * reference.inputs;
    const std::vector<double> row(begin, begin + reference.inputs);
    exact.push_back(exl3_reference::multiply(reference, exl3_reference::decode(reference), row.data()));
    single.push_back({experts.matrix_of_row[r], r, 1});
  }
  expect(worst_error(y, exact) < 4e-4, "grouped experts of two widths with gathered rows are right");
  const auto alone = experts.run(single, 1);
  expect(same_bits(y.data(), alone.data(), y.size()), "a row's bits do not depend on its group");
}

void check_refusals() {
  const Exl3Matrix none;
  expect(exl3_multiply(nullptr, none, {}, {}, 1, {}) == cudaErrorInvalidValue, "an empty shape is refused");
  Exl3Matrix matrix;
  matrix.shape = {128, 128, 9, Exl3Codebook::mul1};
  expect(exl3_multiply(nullptr, matrix, {}, {}, 1, {}) == cudaErrorInvalidValue, "nine bits are refused");
  matrix.shape.bits = 3;
  expect(exl3_multiply(nullptr, matrix, {}, {}, exl3_chunk_rows_max + 1, {}) == cudaErrorInvalidValue,
         "too many rows are refused");
  expect(exl3_multiply(nullptr, matrix, {}, {}, 0, {}) == cudaErrorInvalidValue, "no rows are refused");
  matrix.shape.inputs = 192;
  expect(exl3_multiply(nullptr, matrix, {}, {}, 1, {}) == cudaErrorInvalidValue, "inputs off the 128 grid are refused");
  matrix.shape.inputs = exl3_inputs_max + 128;
  expect(exl3_multiply(nullptr, matrix, {}, {}, 1, {}) == cudaErrorInvalidValue, "too many inputs are refused");
}

// The reference itself, pinned to values that the format's documentation states.
void check_reference() {
  using exl3_reference::Codebook;
  const std::uint32_t states[] = {0, 1, 0x1234, 0xffff};
  const unsigned values[3][4] = {
      {0x3a25, 0xbb5b, 0xc066, 0xb110}, {0x3f60, 0x304e, 0x3e0f, 0x3acd}, {0xc2e8, 0x3921, 0xb89e, 0xb936}};
  bool same = true;
  for (int codebook = 0; codebook < 3; ++codebook) {
    for (int i = 0; i < 4; ++i) {
      same = same && exl3_reference::weight_of_state(static_cast<Codebook>(codebook), states[i]) ==
                         exl3_reference::half_value(values[codebook][i]);
    }
  }
  expect(same, "the reference has the codebooks' known values");
}

}  // namespace

int main(int argc, char**) {
  const bool brief = argc > 1;
  const unsigned seed = 20261129;
  std::mt19937 random(seed);
  std::printf("seed %u\n", seed);
  check_reference();
  check_refusals();
  const Exl3Codebook codebooks[] = {Exl3Codebook::three_inst, Exl3Codebook::mcg, Exl3Codebook::mul1};
  for (const auto codebook : codebooks) {
    for (int bits = brief ? 3 : 1; bits <= (brief ? 3 : 8); ++bits) check_decode(bits, codebook, random);
  }
  const std::pair<int, int> sizes[] = {{128, 128},  {128, 384},  {256, 128}, {640, 256},
                                       {1152, 640}, {4096, 128}, {5120, 256}};
  int turn = 0;
  for (const auto& [inputs, outputs] : sizes) {
    if (brief && inputs != 640) continue;
    for (int i = 0; i < 4; ++i, ++turn) {
      const Exl3Shape shape{inputs, outputs, turn % 8 + 1, i == 3 ? codebooks[turn / 4 % 2] : Exl3Codebook::mul1};
      check_products(shape, turn % 3 == 0, random);
    }
  }
  check_chunk({640, 256, 3, Exl3Codebook::mul1}, 129, random);   // as clusters, piece by piece
  check_chunk({384, 9216, 5, Exl3Codebook::mul1}, 129, random);  // as blocks of 128 rows
  check_chunk({256, 9216, 2, Exl3Codebook::mcg}, 65, random);    // as blocks of 64 rows
  check_rows(random);
  check_groups(random);
  std::printf("%s: %d failed\n", failures == 0 ? "all checks hold" : "FAILED", failures);
  return failures == 0 ? 0 : 1;
}
