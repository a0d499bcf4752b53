// Tensors of the recorded EXL3 files under tests/golden/exl3, and weights built from them.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

#include "gpu/checkpoint/safetensors.hpp"
#include "gpu/exl3/matrix.hpp"
#include "gpu/linear.hpp"

namespace tandem::gpu::test {

class GoldenFile {
 public:
  explicit GoldenFile(const std::string& name);

  bool has(const std::string& name) const { return file_.find(name) != nullptr; }
  const std::vector<std::int64_t>& shape(const std::string& name) const;
  template <class Value>
  std::vector<Value> values(const std::string& name) const {
    const auto bytes = file_.read_all(name);
    if (!bytes || bytes->size() % sizeof(Value) != 0) throw std::runtime_error(name);
    std::vector<Value> result(bytes->size() / sizeof(Value));
    std::memcpy(result.data(), bytes->data(), bytes->size());
    return result;
  }
  // An FP16 tensor as floats.
  std::vector<float> halves(const std::string& name) const;
  // The matrix that `prefix`.trellis, .suh, .svh and its marker describe.
  exl3::PackedMatrix matrix(const std::string& prefix) const;

 private:
  SafetensorsFile file_;
};

// Random words, signs and scales. Every trellis is valid.
exl3::PackedMatrix random_matrix(std::int64_t in, std::int64_t out, exl3::Form form, unsigned seed);

// The backend's form of a packed matrix; `n` and `k` may be smaller than its padded sides.
Linear linear_of(const exl3::PackedMatrix& matrix, std::int64_t n, std::int64_t k);
inline Linear linear_of(const exl3::PackedMatrix& matrix) {
  return linear_of(matrix, matrix.out, matrix.in);
}

std::vector<float> random_floats(std::size_t count, unsigned seed);

// sqrt(sum (a - b)^2 / sum b^2).
template <class A, class B>
double relative_rms(const std::vector<A>& a, const std::vector<B>& b) {
  double error = 0, size = 0;
  for (std::size_t i = 0; i < b.size(); ++i) {
    const double difference = static_cast<double>(a.at(i)) - static_cast<double>(b[i]);
    error += difference * difference;
    size += static_cast<double>(b[i]) * static_cast<double>(b[i]);
  }
  return size == 0 ? error : std::sqrt(error / size);
}

}  // namespace tandem::gpu::test
