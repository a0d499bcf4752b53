// EXL3 in double precision on the host, straight from the format's definition and sharing nothing with the kernels.
//
// Definition: turboderp-org/exllamav3, doc/exl3.md. Weights are exact fp16 numbers; everything after is f64.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace exl3_reference {

enum class Codebook { three_inst, mcg, mul1 };

struct Matrix {
  int inputs = 0, outputs = 0, bits = 0;
  Codebook codebook = Codebook::mul1;
  std::vector<std::uint16_t> trellis;  // [inputs/16][outputs/16][16*bits], as in a checkpoint
  std::vector<double> suh, svh, bias;  // values of fp16 numbers; bias may be empty
};

inline double half_value(unsigned bits) {
  const int exponent = bits >> 10 & 31, fraction = bits & 1023;
  const double sign = bits & 0x8000 ? -1.0 : 1.0;
  if (exponent == 0) return sign * std::ldexp(fraction, -24);
  return sign * std::ldexp(1024 + fraction, exponent - 25);
}

// Nearest fp16 number, ties to even; only magnitudes below 65504 occur here.
inline double round_to_half(double value) {
  if (value == 0) return 0;
  int exponent;
  std::frexp(value, &exponent);
  const double unit = std::ldexp(1.0, (exponent - 11 < -24 ? -24 : exponent - 11));
  return std::nearbyint(value / unit) * unit;
}

inline double weight_of_state(Codebook codebook, std::uint32_t state) {
  if (codebook == Codebook::mul1) {
    const std::uint32_t x = state * 0x83DCD12Du;
    const unsigned sum = (x & 255) + (x >> 8 & 255) + (x >> 16 & 255) + (x >> 24);
    return round_to_half((1024.0 + sum) * half_value(0x1EEE) + half_value(0xC931));
  }
  std::uint32_t x = codebook == Codebook::mcg ? state * 0xCBAC1FEDu : state * 89226354u + 64248484u;
  x = (x & 0x8fff8fffu) ^ 0x3b603b60u;
  return round_to_half(half_value(x & 0xffff) + half_value(x >> 16));
}

// State of position t of a tile: the 16 stream bits that end with bit (t + 1) * bits - 1, around the tile's circle.
inline std::uint32_t state_of(const std::uint16_t* tile, int bits, int t) {
  std::uint32_t state = 0;
  const int size = 256 * bits;
  for (int i = 0; i < 16; ++i) {
    const int b = ((t + 1) * bits - 16 + i + size) % size;
    state = state << 1 | (tile[(b / 16) ^ 1] >> (15 - b % 16) & 1u);
  }
  return state;
}

// Decoded weights What [inputs][outputs].
inline std::vector<double> decode(const Matrix& m) {
  std::vector<double> weights(static_cast<std::size_t>(m.inputs) * m.outputs);
  for (int tile_row = 0; tile_row < m.inputs / 16; ++tile_row) {
    for (int tile_column = 0; tile_column < m.outputs / 16; ++tile_column) {
      const auto tile = static_cast<std::size_t>(tile_row) * (m.outputs / 16) + tile_column;
      for (int t = 0; t < 256; ++t) {
        const int lane = t / 8, j = t % 8;
        const int row = 2 * (lane % 4) + (j & 1) + 8 * (j >> 1 & 1), column = lane / 4 + 8 * (j >> 2);
        weights[static_cast<std::size_t>(16 * tile_row + row) * m.outputs + 16 * tile_column + column] =
            weight_of_state(m.codebook, state_of(&m.trellis[tile * 16 * m.bits], m.bits, t));
      }
    }
  }
  return weights;
}

// Every 128 values times the normalised Hadamard matrix of natural order.
inline void transform(double* values, int count) {
  for (int block = 0; block < count; block += 128) {
    double out[128];
    for (int i = 0; i < 128; ++i) {
      out[i] = 0;
      for (int j = 0; j < 128; ++j) out[i] += __builtin_popcount(i & j) % 2 ? -values[block + j] : values[block + j];
    }
    for (int i = 0; i < 128; ++i) values[block + i] = out[i] / std::sqrt(128.0);
  }
}

// y[outputs] of one row x[inputs], with `weights` = decode(m).
inline std::vector<double> multiply(const Matrix& m, const std::vector<double>& weights, const double* x) {
  std::vector<double> rotated(m.inputs), y(m.outputs, 0.0);
  for (int i = 0; i < m.inputs; ++i) rotated[i] = x[i] * m.suh[i];
  transform(rotated.data(), m.inputs);
  for (int i = 0; i < m.inputs; ++i) {
    for (int j = 0; j < m.outputs; ++j) y[j] += rotated[i] * weights[static_cast<std::size_t>(i) * m.outputs + j];
  }
  transform(y.data(), m.outputs);
  for (int j = 0; j < m.outputs; ++j) y[j] = y[j] * m.svh[j] + (m.bias.empty() ? 0.0 : m.bias[j]);
  return y;
}

}  // namespace exl3_reference
