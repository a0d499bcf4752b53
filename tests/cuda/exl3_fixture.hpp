// Random EXL3 matrices on the device, and rows in the rotated domain.
#pragma once

#include <cuda_runtime_api.h>

#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <string>
#include <vector>

#include "gpu/cuda/exl3/exl3.hpp"
#include "gpu/numeric/bf16.hpp"
#include "tests/bench/cuda_exl3_reference.hpp"
#include "tests/cuda/device_fixture.hpp"

namespace tandem::gpu::test {

using namespace tandem::gpu::cuda;

using Ints = std::vector<std::int32_t>;

template <class T>
DeviceMatrix on_device(const std::vector<T>& values) {
  Ints words((values.size() * sizeof(T) + 3) / 4);
  std::copy_n(reinterpret_cast<const unsigned char*>(values.data()), values.size() * sizeof(T),
              reinterpret_cast<unsigned char*>(words.data()));
  return {words, 1};
}

inline std::vector<std::uint16_t> halves(const std::vector<double>& values) {
  std::vector<std::uint16_t> result;
  for (const double value : values) result.push_back(float_to_f16(static_cast<float>(value)));
  return result;
}

inline exl3_reference::Matrix random_reference(Random& random, const Exl3Shape& shape, bool has_bias) {
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
inline std::vector<std::uint16_t> packed(const exl3_reference::Matrix& m) {
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

inline void check(cudaError_t error) {
  BOOST_REQUIRE(error == cudaSuccess);
}

// Everything that has been asked for is done when it returns.
inline void settle() {
  BOOST_REQUIRE(backends().cuda->wait().has_value());
  check(cudaStreamSynchronize(nullptr));
}

inline Exl3Rows exl3_rows(const Tensor& rows) {
  return {rows.data, Exl3Element::f32, static_cast<std::int32_t>(rows.cols), rows.stride, false};
}

struct Rotated {
  DeviceMatrix values, undo;

  Rotated(std::int64_t rows, std::int64_t inputs) : values(rows, inputs / 2), undo(rows, exl3_slices_max) {}
  Exl3Rotated view(Exl3Order order = Exl3Order::lanes) const {
    return {values.tensor().data, undo.tensor().row<float>(0), order};
  }
};

inline std::string exl3_name(const Exl3Shape& shape, int count, int rows) {
  return std::to_string(shape.inputs) + "x" + std::to_string(shape.outputs) + " K=" + std::to_string(shape.bits) +
         " codebook " + std::to_string(static_cast<int>(shape.codebook)) + ", " + std::to_string(count) + " of " +
         std::to_string(rows) + " rows";
}

}  // namespace tandem::gpu::test
