// Records byte by byte: codes first, then the scales of the groups in order. The plain reference; backends read them
// vectorised.
#include "gpu/kv_record.hpp"

#include <algorithm>
#include <cstring>

#include "gpu/numeric/minifloat.hpp"
#include "gpu/numeric/quantise.hpp"

namespace tandem::gpu {
namespace {

std::size_t groups(std::size_t n, int group) noexcept {
  return (n + static_cast<std::size_t>(group) - 1) / static_cast<std::size_t>(group);
}

// Calls quantise(group of x, where its codes go) for each group and stores the returned scale bytes behind the codes.
template <class Quantise>
void write_groups(std::span<const float> x, std::size_t group, std::size_t values_per_byte, std::byte* record,
                  const Quantise& quantise) noexcept {
  auto* codes = reinterpret_cast<std::uint8_t*>(record);
  std::uint8_t* scale = codes + x.size() / values_per_byte;
  for (std::size_t i = 0; i < x.size(); i += group) {
    *scale++ = quantise(x.subspan(i, std::min(group, x.size() - i)), codes + i / values_per_byte);
  }
}

float nibble_value(const std::uint8_t* nibbles, std::size_t i) noexcept {
  return e2m1_to_float(static_cast<std::uint8_t>(nibbles[i / 2] >> (4 * (i % 2))));
}

}  // namespace

std::size_t record_bytes(RecordFormat format, int n) noexcept {
  const auto values = static_cast<std::size_t>(n);
  switch (format) {
    case RecordFormat::f32:
      return values * sizeof(float);
    case RecordFormat::w8:
      return values + groups(values, q8_group);
    case RecordFormat::n4:
      return values / 2 + groups(values, n4_group);
    case RecordFormat::x4:
      return values / 2 + groups(values, x4_group);
  }
  return 0;
}

void write_record(RecordFormat format, std::span<const float> x, std::byte* record) noexcept {
  switch (format) {
    case RecordFormat::f32:
      std::memcpy(record, x.data(), x.size_bytes());
      return;
    case RecordFormat::w8:
      return write_groups(x, q8_group, 1, record, quantise_q8);
    case RecordFormat::n4:
      return write_groups(x, n4_group, 2, record, quantise_n4);
    case RecordFormat::x4:
      return write_groups(x, x4_group, 2, record, quantise_x4);
  }
}

void read_record(RecordFormat format, const std::byte* record, std::span<float> x) noexcept {
  const auto* codes = reinterpret_cast<const std::uint8_t*>(record);
  const std::size_t n = x.size();
  switch (format) {
    case RecordFormat::f32:
      std::memcpy(x.data(), record, x.size_bytes());
      return;
    case RecordFormat::w8:
      for (std::size_t i = 0; i < n; ++i) x[i] = e4m3_to_float(codes[i]) * e8m0_to_float(codes[n + i / q8_group]);
      return;
    case RecordFormat::n4:
      for (std::size_t i = 0; i < n; ++i) x[i] = nibble_value(codes, i) * e4m3_to_float(codes[n / 2 + i / n4_group]);
      return;
    case RecordFormat::x4:
      for (std::size_t i = 0; i < n; ++i) x[i] = nibble_value(codes, i) * e8m0_to_float(codes[n / 2 + i / x4_group]);
      return;
  }
}

}  // namespace tandem::gpu
