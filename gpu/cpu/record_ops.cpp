// Writing rows into caches and reading records back, vectorised where the attention loops read them.
#include "gpu/cpu/row_ops.hpp"
#include "gpu/cpu/simd/kernels.hpp"
#include "gpu/numeric/quantise.hpp"

#include <cstring>

namespace tandem::gpu {

void cpu_quantise_x4(CpuContext& context, const Tensor& x) {
  context.for_each_row(x.rows, 8 * x.cols, [&](std::int64_t t) {
    float* row = x.row<float>(t);
    std::uint8_t nibbles[x4_group / 2];
    for (std::int64_t i = 0; i < x.cols; i += x4_group) {
      const std::uint8_t scale = quantise_x4({row + i, x4_group}, nibbles);
      simd::decode_fp4(nibbles, &scale, x4_group, row + i);
    }
  });
}

void cpu_write_window(CpuContext& context, const Tensor& x, std::span<const RecordRing> rings,
                      std::span<const std::int64_t> positions) {
  context.for_each_row(x.rows, 8 * x.cols, [&](std::int64_t t) {
    const auto i = static_cast<std::size_t>(t);
    write_record(rings[i].format, {x.row<float>(t), static_cast<std::size_t>(x.cols)}, rings[i].at(positions[i]));
  });
}

void cpu_write_entries(CpuContext& context, const Tensor& x, std::span<const PagedRecords> caches,
                       std::span<const std::int32_t> entries) {
  context.for_each_row(x.rows, 8 * x.cols, [&](std::int64_t t) {
    const auto i = static_cast<std::size_t>(t);
    write_record(caches[i].format, {x.row<float>(t), static_cast<std::size_t>(x.cols)}, caches[i].at(entries[i]));
  });
}

void decode_record(RecordFormat format, const std::byte* record, int n, float* out) {
  const auto* codes = reinterpret_cast<const std::uint8_t*>(record);
  switch (format) {
    case RecordFormat::f32:
      std::memcpy(out, record, static_cast<std::size_t>(n) * sizeof(float));
      return;
    case RecordFormat::w8:
      return simd::decode_fp8(codes, codes + n, n, out);
    case RecordFormat::n4:
      return simd::decode_n4(codes, codes + n / 2, n, out);
    case RecordFormat::x4:
      return simd::decode_fp4(codes, codes + n / 2, n, out);
  }
}

}  // namespace tandem::gpu
