// The vector kernels under CpuOps, as plain functions; the implementations are chosen for the processor at run time.
//
// Every reduction over n values, but those of chain.cpp and index.cpp, uses 16 accumulator lanes: lane l sums the
// elements with index = l mod 16 in ascending order with fused multiply-adds, and the lanes are added as a tree of
// halves (l + 8, l + 4, l + 2, l + 1). The result depends on the values and n alone: not on the register width, the
// rows beside it or the number of threads.
#pragma once

#include <cstdint>

namespace tandem::gpu::simd {

inline constexpr int lanes = 16;

// ---- products (tile.cpp) ----

// acc[r][c][lane] (+)= sum over k of x[r][x_first + k] * w[c][k], k in steps of `lanes`.
struct Tile {
  const float* const* x = nullptr;  // `rows` pointers: rows need not lie side by side
  std::int64_t x_first = 0;
  const float* w = nullptr;  // [cols, w_stride]
  std::int64_t w_stride = 0;
  float* acc = nullptr;         // [rows, acc_stride, lanes]
  std::int64_t acc_stride = 0;  // columns of a row of acc
  std::int64_t rows = 0;
  std::int64_t cols = 0;  // multiple of tile_cols
  std::int64_t k = 0;     // multiple of lanes
  bool first = true;      // start from zero instead of what acc holds
};
inline constexpr int tile_cols = 4;
void multiply_tile(const Tile& tile);

// Adds the 16 lanes of one accumulator.
float add_lanes(const float* acc) noexcept;
float dot(const float* a, const float* b, std::int64_t n);
float sum_of_squares(const float* x, std::int64_t n);
// sum of a*b*c, products formed as (a*b)*c.
float dot3(const float* a, const float* b, const float* c, std::int64_t n);

// ---- products in the reference's order (chain.cpp) ----

// sum[r][c] continues over k as one chain of fused multiply-adds: sum += x[r][x_first + k] * w[c][k], k ascending.
struct Chain {
  const float* const* x = nullptr;  // `rows` pointers
  std::int64_t x_first = 0;
  const float* w = nullptr;  // [cols, w_stride]
  std::int64_t w_stride = 0;
  std::int64_t rows = 0;
  std::int64_t cols = 0;  // at most `lanes`
  std::int64_t k = 0;
  float* sum = nullptr;  // [rows, lanes]
};
void continue_chains(const Chain& chain);

// ---- decoding to f32 (decode.cpp): n values, exact ----

void decode_bf16(const std::uint16_t* codes, std::int64_t n, float* out);
// One e8m0 scale per 32 values.
void decode_fp8(const std::uint8_t* codes, const std::uint8_t* scales, std::int64_t n, float* out);
// Nibbles, even value low; one e8m0 scale per 32 values; n even.
void decode_fp4(const std::uint8_t* nibbles, const std::uint8_t* scales, std::int64_t n, float* out);
// Nibbles, even value low; one e4m3 scale per 16 values; n even.
void decode_n4(const std::uint8_t* nibbles, const std::uint8_t* scales, std::int64_t n, float* out);

// ---- element by element (rows.cpp) ----

void round_bf16(float* x, std::int64_t n);
// Replaces x by the values its Q8 codes stand for (groups of 32, the last one may be shorter).
void fake_q8(float* x, std::int64_t n);
// y = (x * factor) * w.
void scale_by(const float* x, float factor, const float* w, std::int64_t n, float* y);
// y = a * x + y, fused.
void add_scaled(float a, const float* x, std::int64_t n, float* y);
// y = a * x.
void scale(float a, const float* x, std::int64_t n, float* y);
// y = y + x.
void add(const float* x, std::int64_t n, float* y);
// h = silu(min(g, limit)) * clamp(u, +-limit) * weight, in this order.
struct SwiGlu {
  const float* gate = nullptr;
  const float* up = nullptr;
  float limit = 10;
  float weight = 1;
};
void swiglu(const SwiGlu& in, std::int64_t n, float* h);
// e^x: within 1 ulp, 0 below -104, infinity above 88.73, NaN for NaN.
void exp(float* x, std::int64_t n);
// z = (ka e^(ga-m) + kb e^(gb-m)) / (e^(ga-m) + e^(gb-m)), m = max(ga, gb).
struct PairPool {
  const float *ka = nullptr, *ga = nullptr, *kb = nullptr, *gb = nullptr;
};
void pool_pair(const PairPool& in, std::int64_t n, float* z);

// ---- attention values (attend.cpp) ----

// out[r][i] = out[r][i] * keep[r] + sum over t of p[r][t] * v[t][i], t ascending with fused multiply-adds.
struct WeightedSum {
  const float* p = nullptr;  // [rows, p_stride]
  std::int64_t p_stride = 0;
  const float* keep = nullptr;  // [rows]
  const float* v = nullptr;     // [count, n]
  std::int64_t rows = 0;
  std::int64_t count = 0;
  std::int64_t n = 0;
  float* out = nullptr;  // [rows, n]
};
void add_weighted(const WeightedSum& sum);

// ---- index scores (index.cpp) ----

inline constexpr int index_block = 64;  // keys scored together

// scores[t] = sum over heads h of weight[h] * relu(q_h . key_t), in the order of gpu/index_order.hpp.
struct IndexBlock {
  const float* q = nullptr;        // [heads, dim]
  const float* weights = nullptr;  // [heads]
  const float* keys = nullptr;     // [dim, index_block]: transposed
  int heads = 0;
  int dim = 0;
  float* scores = nullptr;  // [index_block]
};
void score_index_block(const IndexBlock& block);
// out[i][t] = in[t][i]: in [index_block, dim], out [dim, index_block].
void transpose_keys(const float* in, int dim, float* out);

}  // namespace tandem::gpu::simd
