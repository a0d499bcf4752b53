// Sizes and names of element types, views of a matrix, and host memory for weights and activations.
#include "gpu/tensor.hpp"

#include <cstring>
#include <memory_resource>

namespace tandem::gpu {

std::size_t element_bytes(DType dtype) noexcept {
  switch (dtype) {
    case DType::f32:
    case DType::i32:
      return 4;
    case DType::bf16:
    case DType::f16:
    case DType::i16:
      return 2;
    case DType::i64:
      return 8;
    case DType::u8:
    case DType::i8:
    case DType::f8_e4m3:
    case DType::f8_e8m0:
      return 1;
  }
  return 0;
}

const char* to_string(DType dtype) noexcept {
  switch (dtype) {
    case DType::f32:
      return "F32";
    case DType::bf16:
      return "BF16";
    case DType::f16:
      return "F16";
    case DType::i32:
      return "I32";
    case DType::i64:
      return "I64";
    case DType::i16:
      return "I16";
    case DType::u8:
      return "U8";
    case DType::i8:
      return "I8";
    case DType::f8_e4m3:
      return "F8_E4M3";
    case DType::f8_e8m0:
      return "F8_E8M0";
  }
  return "unknown";
}

// 64 bytes: one cache line, and the widest vector register of the CPUs that we run on.
Buffer Buffer::host(std::size_t bytes) {
  if (bytes == 0) return {};
  constexpr std::size_t alignment = 64;
  std::pmr::memory_resource* heap = std::pmr::new_delete_resource();
  auto* data = static_cast<std::byte*>(heap->allocate(bytes, alignment));
  std::shared_ptr<std::byte> owned(data, [heap, bytes](std::byte* p) { heap->deallocate(p, bytes, alignment); });
  std::memset(data, 0, bytes);
  return {std::move(owned), bytes};
}

Tensor Tensor::slice_rows(std::int64_t first, std::int64_t count) const noexcept {
  Tensor view = *this;
  view.data = static_cast<std::byte*>(data) + first * stride * static_cast<std::int64_t>(element_bytes(dtype));
  view.rows = count;
  return view;
}

Tensor Tensor::slice_cols(std::int64_t first, std::int64_t count) const noexcept {
  Tensor view = *this;
  view.data = static_cast<std::byte*>(data) + first * static_cast<std::int64_t>(element_bytes(dtype));
  view.cols = count;
  return view;
}

}  // namespace tandem::gpu
