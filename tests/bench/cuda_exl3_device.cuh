// Device memory, random matrices and rows for the EXL3 programs beside this file. A CUDA error ends the program.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <cstdio>
#include <cstdlib>
#include <random>
#include <vector>

#include "gpu/cuda/exl3/exl3.hpp"
#include "tests/bench/cuda_exl3_reference.hpp"

namespace exl3_device {

using namespace tandem::gpu::cuda;

inline void require(cudaError_t error, const char* what) {
  if (error == cudaSuccess) return;
  std::fprintf(stderr, "%s: %s\n", what, cudaGetErrorString(error));
  std::exit(2);
}

template <class T>
class Array {
 public:
  explicit Array(std::size_t size) : size_(size) {
    require(cudaMalloc(&data_, size * sizeof(T)), "cudaMalloc");
    require(cudaMemset(data_, 0xff, size * sizeof(T)), "cudaMemset");  // NaN: what is not written shows
  }
  explicit Array(const std::vector<T>& values) : Array(values.size()) {
    require(cudaMemcpy(data_, values.data(), size_ * sizeof(T), cudaMemcpyHostToDevice), "copy to device");
  }
  Array(Array&& other) noexcept : data_(std::exchange(other.data_, nullptr)), size_(other.size_) {}
  Array& operator=(Array&&) = delete;
  ~Array() { cudaFree(data_); }

  T* get() const { return data_; }
  std::size_t size() const { return size_; }
  std::vector<T> read() const {
    std::vector<T> values(size_);
    require(cudaMemcpy(values.data(), data_, size_ * sizeof(T), cudaMemcpyDeviceToHost), "copy to host");
    return values;
  }

 private:
  T* data_ = nullptr;
  std::size_t size_ = 0;
};

inline __half half_of_bits(std::uint16_t bits) {
  return __half(__half_raw{bits});
}

// A random matrix: any words are valid; scales like a released file's, signs mixed.
inline exl3_reference::Matrix random_matrix(const Exl3Shape& shape, bool with_bias, std::mt19937& random) {
  exl3_reference::Matrix m;
  m.inputs = shape.inputs;
  m.outputs = shape.outputs;
  m.bits = shape.bits;
  m.codebook = static_cast<exl3_reference::Codebook>(shape.codebook);
  m.trellis.resize(static_cast<std::size_t>(exl3_bytes(shape.inputs, shape.outputs, shape.bits)) / 2);
  for (auto& word : m.trellis) word = static_cast<std::uint16_t>(random());
  std::uniform_real_distribution<double> magnitude(0.01, 0.05);
  const auto scale = [&] {
    return exl3_reference::round_to_half(random() % 2 ? magnitude(random) : -magnitude(random));
  };
  for (int i = 0; i < shape.inputs; ++i) m.suh.push_back(scale());
  for (int i = 0; i < shape.outputs; ++i) m.svh.push_back(scale());
  for (int i = 0; with_bias && i < shape.outputs; ++i) m.bias.push_back(scale());
  return m;
}

inline std::vector<__half> halves(const std::vector<double>& values) {
  std::vector<__half> out;
  for (const double value : values) out.push_back(__double2half(value));
  return out;
}

// A matrix in device memory, packed by the product's own kernel.
struct DeviceMatrix {
  Array<std::uint32_t> words;
  Array<__half> suh, svh, bias;
  Exl3Matrix view;

  DeviceMatrix(const Exl3Shape& shape, const exl3_reference::Matrix& m)
      : words(static_cast<std::size_t>(exl3_bytes(shape.inputs, shape.outputs, shape.bits)) / 4),
        suh(halves(m.suh)),
        svh(halves(m.svh)),
        bias(halves(m.bias.empty() ? std::vector<double>(8) : m.bias)),
        view{shape, words.get(), suh.get(), svh.get(), m.bias.empty() ? nullptr : bias.get()} {
    const Array<std::uint16_t> trellis(m.trellis);
    require(exl3_pack(nullptr, shape, trellis.get(), words.get()), "exl3_pack");
    require(cudaDeviceSynchronize(), "exl3_pack");
  }
};

// Space for rotated rows.
struct DeviceRotated {
  Array<__half> values;
  Array<float> undo;

  DeviceRotated(int rows, int inputs)
      : values(static_cast<std::size_t>(rows) * inputs), undo(static_cast<std::size_t>(rows) * exl3_slices_max) {}
  Exl3Rotated view() const { return {values.get(), undo.get()}; }
};

}  // namespace exl3_device
