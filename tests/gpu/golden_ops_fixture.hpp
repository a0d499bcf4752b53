// Tensors of the golden files as f32 or integers, for tests that compare with the reference's isolated operators.
#pragma once

#include <cmath>
#include <cstring>
#include <filesystem>
#include <string>
#include <vector>

#include "gpu/checkpoint/safetensors.hpp"
#include "gpu/linear.hpp"
#include "gpu/numeric/bf16.hpp"
#include "gpu/weights.hpp"
#include "tests/build_paths.hpp"

namespace tandem::gpu::test {

inline std::filesystem::path golden_folder() {
  return golden_model_folder();
}

class GoldenFile {
 public:
  explicit GoldenFile(const std::string& name) : file_(SafetensorsFile::open(golden_folder() / name).value()) {}

  std::vector<std::int64_t> shape(const std::string& name) const { return file_.find(name)->shape; }
  DType dtype(const std::string& name) const { return file_.find(name)->dtype; }
  template <class T>
  std::vector<T> raw(const std::string& name) const {
    const std::vector<std::byte> bytes = file_.read_all(name).value();
    std::vector<T> values(bytes.size() / sizeof(T));
    std::memcpy(values.data(), bytes.data(), bytes.size());
    return values;
  }
  // BF16 or F32 as f32.
  std::vector<float> floats(const std::string& name) const {
    if (dtype(name) == DType::f32) return raw<float>(name);
    std::vector<float> values;
    for (const std::uint16_t bits : raw<std::uint16_t>(name)) values.push_back(bf16_to_float(bits));
    return values;
  }

 private:
  SafetensorsFile file_;
};

inline Buffer buffer_of(const void* data, std::size_t bytes) {
  Buffer buffer = Buffer::host(bytes);
  std::memcpy(buffer.data.get(), data, bytes);
  return buffer;
}

template <class T>
Buffer buffer_of(const std::vector<T>& values) {
  return buffer_of(values.data(), values.size() * sizeof(T));
}

inline DenseF32 dense_of(const std::vector<float>& values, std::int64_t rows, std::int64_t cols) {
  return {buffer_of(values), rows, cols};
}

// A linear of the golden checkpoint by its name without ".weight"; the format follows from the stored type.
inline Linear golden_linear(const GoldenFile& file, const std::string& name) {
  Linear linear;
  linear.name = name;
  const std::vector<std::int64_t> shape = file.shape(name + ".weight");
  linear.n = shape[0];
  linear.k = shape[1];
  linear.codes = buffer_of(file.raw<std::byte>(name + ".weight"));
  switch (file.dtype(name + ".weight")) {
    case DType::f8_e4m3:
      linear.format = WeightFormat::fp8_block32;
      break;
    case DType::i8:
      linear.format = WeightFormat::fp4_block32;
      linear.k *= 2;
      break;
    case DType::f32:
      linear.format = WeightFormat::f32;
      break;
    default:
      linear.format = WeightFormat::bf16;
  }
  if (linear.is_low_precision()) linear.scales = buffer_of(file.raw<std::byte>(name + ".scale"));
  return linear;
}

// |a - b| / |b| over all elements.
inline double relative_l2(const std::vector<float>& a, const std::vector<float>& b) {
  double difference = 0, norm = 0;
  for (std::size_t i = 0; i < b.size(); ++i) {
    difference += (double{a[i]} - b[i]) * (double{a[i]} - b[i]);
    norm += double{b[i]} * b[i];
  }
  return std::sqrt(difference / norm);
}

inline double largest_difference(const std::vector<float>& a, const std::vector<float>& b) {
  double largest = 0;
  for (std::size_t i = 0; i < b.size(); ++i) largest = std::fmax(largest, std::abs(double{a[i]} - b[i]));
  return largest;
}

}  // namespace tandem::gpu::test
