// Plain views of device memory: what every operation of the model takes and gives. A Tensor owns nothing.
//
// A Tensor is a row-major matrix [rows, cols] with a row stride; vectors are one row. Owned memory is a Buffer (64-byte
// aligned bytes whose release function belongs to the backend that made it).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

namespace tandem::gpu {

enum class DType : std::uint8_t { f32, bf16, f16, i32, i64, i16, u8, i8, f8_e4m3, f8_e8m0 };

// Returns the bytes of one element.
std::size_t element_bytes(DType dtype) noexcept;
// Returns the name used in safetensors headers, e.g. "F8_E4M3".
const char* to_string(DType dtype) noexcept;

// Owned, aligned device bytes; shared so that views of one allocation may outlive the loader that made it.
struct Buffer {
  std::shared_ptr<std::byte> data;
  std::size_t bytes = 0;

  // Returns `bytes` zeroed host bytes aligned to 64.
  static Buffer host(std::size_t bytes);
  template <class T>
  T* as() const noexcept {
    return reinterpret_cast<T*>(data.get());
  }
};

struct Tensor {
  void* data = nullptr;
  DType dtype = DType::f32;
  std::int64_t rows = 0;
  std::int64_t cols = 0;
  std::int64_t stride = 0;  // elements from one row to the next

  static Tensor f32(float* data, std::int64_t rows, std::int64_t cols) noexcept {
    return {data, DType::f32, rows, cols, cols};
  }
  static Tensor i32(std::int32_t* data, std::int64_t rows, std::int64_t cols) noexcept {
    return {data, DType::i32, rows, cols, cols};
  }
  template <class T>
  T* row(std::int64_t r) const noexcept {
    return static_cast<T*>(data) + r * stride;
  }
  // Returns rows [first, first + count) of this matrix.
  Tensor slice_rows(std::int64_t first, std::int64_t count) const noexcept;
  // Returns columns [first, first + count) of this matrix.
  Tensor slice_cols(std::int64_t first, std::int64_t count) const noexcept;
  bool empty() const noexcept { return rows == 0 || cols == 0; }
};

}  // namespace tandem::gpu
