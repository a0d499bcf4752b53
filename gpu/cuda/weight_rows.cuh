// Products of activation rows with outputs of a compact weight: the inner loop of every linear.
//
// A warp takes 8 neighbouring outputs, four threads each; thread q of an output holds lanes 4q .. 4q + 3 of the sum
// (lanes.cuh) for R rows. The warp copies the next pieces of its 8 weight rows to shared memory while it works on the
// present one, so that one warp keeps 12 KiB of loads in flight and few warps reach the memory's speed. A weight is
// decoded once for R rows; decoding is exact, and the order of summation is a function of K alone.
#pragma once

#include <cuda_fp8.h>

#include <cstdint>

#include "gpu/cuda/lanes.cuh"
#include "gpu/cuda/matrix.hpp"

namespace tandem::gpu::cuda {

inline constexpr int quarter = 4;  // lanes and weights of one thread at a time; threads of one output

__device__ inline float2 decode_e4m3_pair(std::uint16_t codes) {
  const __half2_raw halves = __nv_cvt_fp8x2_to_halfraw2(codes, __NV_E4M3);
  return __half22float2(__half2(halves));
}

// e2m1 moved into an FP16 reads 2^-14 times its value.
__device__ inline float decode_e2m1(unsigned nibble) {
  const auto bits = static_cast<unsigned short>((nibble & 7U) << 9 | (nibble & 8U) << 12);
  return __half2float(__ushort_as_half(bits)) * 16384.0F;
}

inline constexpr int warp_outputs = warp_size / quarter;
inline constexpr int piece_bytes = 512;              // of one weight row, copied at a time
inline constexpr int staged_row = piece_bytes + 16;  // the 8 rows of a piece begin on different banks
inline constexpr int scale_row = 32 + 4;             // the scales of a row's piece, at most one for 32 FP4 weights
inline constexpr int stage_bytes = warp_outputs * (staged_row + scale_row);
inline constexpr int stages = 4;
inline constexpr int staging_bytes = stages * stage_bytes;  // shared memory of a warp

template <WeightFormat format>
__device__ constexpr int weight_bits() {
  if (format == WeightFormat::f32) return 32;
  if (format == WeightFormat::bf16) return 16;
  return format == WeightFormat::fp8_block32 ? 8 : 4;
}

// Four weights from `codes`, unscaled.
template <WeightFormat format>
__device__ float4 decode_four(const unsigned char* codes) {
  if constexpr (format == WeightFormat::f32) {
    return *reinterpret_cast<const float4*>(codes);
  } else if constexpr (format == WeightFormat::bf16) {
    const uint2 raw = *reinterpret_cast<const uint2*>(codes);
    return {__uint_as_float(raw.x << 16), __uint_as_float(raw.x & 0xFFFF0000U), __uint_as_float(raw.y << 16),
            __uint_as_float(raw.y & 0xFFFF0000U)};
  } else if constexpr (format == WeightFormat::fp8_block32) {
    const auto raw = *reinterpret_cast<const std::uint32_t*>(codes);
    const float2 low = decode_e4m3_pair(static_cast<std::uint16_t>(raw));
    const float2 high = decode_e4m3_pair(static_cast<std::uint16_t>(raw >> 16));
    return {low.x, low.y, high.x, high.y};
  } else {
    const unsigned raw = *reinterpret_cast<const std::uint16_t*>(codes);
    return {decode_e2m1(raw), decode_e2m1(raw >> 4), decode_e2m1(raw >> 8), decode_e2m1(raw >> 12)};
  }
}

// Weight k of output `out`, wherever it lies.
template <WeightFormat format>
__device__ float load_weight(const Matrix& w, std::int64_t out, std::int64_t k) {
  const std::int64_t at = out * w.k + k;
  if constexpr (format == WeightFormat::f32) {
    return static_cast<const float*>(w.codes)[at];
  } else if constexpr (format == WeightFormat::bf16) {
    return bf16_to_float(static_cast<const std::uint16_t*>(w.codes)[at]);
  } else if constexpr (format == WeightFormat::fp8_block32) {
    const std::uint8_t code = static_cast<const std::uint8_t*>(w.codes)[at];
    return decode_e4m3_pair(code).x * e8m0_to_float(w.scales[out / 32 * w.scale_cols + k / 32]);
  } else {
    const std::uint8_t pair = static_cast<const std::uint8_t*>(w.codes)[at / 2];
    return decode_e2m1(at % 2 == 0 ? pair : pair >> 4) * e8m0_to_float(w.scales[out * w.scale_cols + k / 32]);
  }
}

// Sum over the lanes of the four threads of an output; all threads of the warp take part.
__device__ inline float add_quarters(const float (&sum)[quarter]) {
  float lane[quarter];
  for (int i = 0; i < quarter; ++i) lane[i] = sum[i] + __shfl_xor_sync(full_warp, sum[i], 2);
  for (int i = 0; i < quarter; ++i) lane[i] += __shfl_xor_sync(full_warp, lane[i], 1);
  return (lane[0] + lane[2]) + (lane[1] + lane[3]);
}

// Copies 16 or 4 bytes to shared memory; complete after a later wait_for_stage.
__device__ inline void copy_async_16(unsigned char* to, const unsigned char* from) {
  const auto address = static_cast<unsigned>(__cvta_generic_to_shared(to));
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(address), "l"(from));
}
__device__ inline void copy_async_4(unsigned char* to, const unsigned char* from) {
  const auto address = static_cast<unsigned>(__cvta_generic_to_shared(to));
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(address), "l"(from));
}
__device__ inline void end_stage() {
  asm volatile("cp.async.commit_group;");
}
// Waits until all stages but the newest `stages - 2` have arrived, for the whole warp.
__device__ inline void wait_for_stage() {
  asm volatile("cp.async.wait_group %0;" ::"n"(stages - 2));
  __syncwarp();
}

// Where the warp's outputs begin and how long a row of their codes is.
struct WarpRows {
  const Matrix& w;
  std::int64_t first_output;
  std::int64_t row_bytes;

  __device__ std::int64_t output(int row) const {
    return first_output + row < w.n ? first_output + row : w.n - 1;  // missing outputs repeat the last one
  }
};

// Starts the copy of the scales of a piece: FP8 has one row of them for all 8 outputs, FP4 one an output.
template <WeightFormat format>
__device__ void stage_scales(const WarpRows& rows, std::int64_t piece, unsigned char* scales) {
  constexpr int words = piece_bytes * 8 / weight_bits<format>() / 32 / 4;
  constexpr int count = format == WeightFormat::fp8_block32 ? 1 : warp_outputs;
  for (int i = static_cast<int>(threadIdx.x) % warp_size; i < count * words; i += warp_size) {
    const std::int64_t word = piece * words + i % words;
    const std::int64_t row = format == WeightFormat::fp8_block32 ? rows.first_output / 32 : rows.output(i / words);
    if (word >= rows.w.scale_cols / 4) continue;
    copy_async_4(scales + i / words * scale_row + i % words * 4, rows.w.scales + row * rows.w.scale_cols + word * 4);
  }
}

// Starts the copy of piece `piece` of the warp's weight rows; an empty stage behind the last piece.
template <WeightFormat format>
__device__ void stage_piece(const WarpRows& rows, std::int64_t piece, unsigned char* shared) {
  unsigned char* stage = shared + piece % stages * stage_bytes;
  const auto* codes = static_cast<const unsigned char*>(rows.w.codes);
#pragma unroll
  for (int i = 0; i < warp_outputs * piece_bytes / 16 / warp_size; ++i) {
    const int chunk = i * warp_size + static_cast<int>(threadIdx.x) % warp_size;
    const int row = chunk / (piece_bytes / 16), offset = chunk % (piece_bytes / 16) * 16;
    const std::int64_t at = piece * piece_bytes + offset;
    if (at < rows.row_bytes) {
      copy_async_16(stage + row * staged_row + offset, codes + rows.output(row) * rows.row_bytes + at);
    }
  }
  if constexpr (weight_bits<format>() <= 8) stage_scales<format>(rows, piece, stage + warp_outputs * staged_row);
  end_stage();
}

// A staged piece as one thread sees it: its output's codes from its own first weight on, and their scales.
struct Piece {
  const unsigned char* codes;
  const unsigned char* scales;
  std::int64_t first;  // weight number of the piece's first weight
  std::int64_t last;   // one past its last one
};

template <WeightFormat format, int rows>
__device__ void add_piece(const float* const (&x)[rows], const Piece& piece, float (&sum)[rows][quarter]) {
  constexpr int step = lanes * weight_bits<format>() / 8;
  const unsigned char* codes = piece.codes;
#pragma unroll(rows == 1 ? 8 : (rows == 4 ? 4 : 2))
  for (std::int64_t k = piece.first + threadIdx.x % quarter * quarter; k < piece.last; k += lanes) {
    float4 weight = decode_four<format>(codes);
    codes += step;
    if constexpr (weight_bits<format>() <= 8) {
      const float s = e8m0_to_float(piece.scales[static_cast<int>(k - piece.first) / 32]);
      weight = {weight.x * s, weight.y * s, weight.z * s, weight.w * s};
    }
#pragma unroll
    for (int r = 0; r < rows; ++r) {
      const float4 value = __ldg(reinterpret_cast<const float4*>(x[r] + k));
      sum[r][0] = fmaf(value.x, weight.x, sum[r][0]);
      sum[r][1] = fmaf(value.y, weight.y, sum[r][1]);
      sum[r][2] = fmaf(value.z, weight.z, sum[r][2]);
      sum[r][3] = fmaf(value.w, weight.w, sum[r][3]);
    }
  }
}

// The weights of the warp's outputs from `first_output` on through shared memory.
template <WeightFormat format, int rows>
__device__ void add_aligned(const float* const (&x)[rows], const Matrix& w, std::int64_t first_output,
                            unsigned char* shared, float (&sum)[rows][quarter]) {
  constexpr int bits = weight_bits<format>();
  constexpr std::int64_t piece_weights = std::int64_t{piece_bytes} * 8 / bits;
  const WarpRows warp{w, first_output, w.k * bits / 8};
  const std::int64_t pieces = (warp.row_bytes + piece_bytes - 1) / piece_bytes;
  const int own = static_cast<int>(threadIdx.x) % warp_size / quarter, q = static_cast<int>(threadIdx.x) % quarter;
  __syncwarp();  // the product before this one may still be read
  for (int piece = 0; piece < stages - 1; ++piece) stage_piece<format>(warp, piece, shared);
  for (std::int64_t number = 0; number < pieces; ++number) {
    wait_for_stage();
    stage_piece<format>(warp, number + stages - 1, shared);
    const unsigned char* stage = shared + number % stages * stage_bytes;
    Piece piece;
    piece.codes = stage + own * staged_row + q * quarter * bits / 8;
    piece.scales = stage + warp_outputs * staged_row + (format == WeightFormat::fp4_block32 ? own * scale_row : 0);
    piece.first = number * piece_weights;
    piece.last = piece.first + piece_weights < w.k ? piece.first + piece_weights : w.k;
    add_piece<format, rows>(x, piece, sum);
  }
  asm volatile("cp.async.wait_all;");
}

template <WeightFormat format, int rows>
__device__ void add_ragged(const float* const (&x)[rows], const Matrix& w, std::int64_t out,
                           float (&sum)[rows][quarter]) {
  for (std::int64_t first = threadIdx.x % quarter * quarter; first < w.k; first += lanes) {
#pragma unroll
    for (int i = 0; i < quarter; ++i) {
      if (first + i >= w.k) continue;
      const float weight = load_weight<format>(w, out, first + i);
#pragma unroll
      for (int r = 0; r < rows; ++r) sum[r][i] = fmaf(x[r][first + i], weight, sum[r][i]);
    }
  }
}

// y[r] = x[r] . w[out] for R rows, out = first_output + the thread's number among outputs; all threads of the warp take
// part. `shared` is the warp's own, staging_bytes of it.
template <WeightFormat format, int rows>
__device__ void multiply_rows(const float* const (&x)[rows], const Matrix& w, std::int64_t first_output,
                              unsigned char* shared, float (&y)[rows]) {
  float sum[rows][quarter] = {};
  if (w.is_aligned) {
    add_aligned<format, rows>(x, w, first_output, shared, sum);
  } else {
    const std::int64_t wanted = first_output + threadIdx.x % warp_size / quarter;
    add_ragged<format, rows>(x, w, wanted < w.n ? wanted : w.n - 1, sum);
  }
#pragma unroll
  for (int r = 0; r < rows; ++r) y[r] = add_quarters(sum[r]);
}

}  // namespace tandem::gpu::cuda
