// y[r, o] = x[r, :] . W[o, :] for few outputs and many rows: what chain_product.cu computes, where arithmetic is the
// limit.
//
// Shapes   mHC: rows x 24 outputs x 20480 f32 and the rows' square sums; router 384 x 5120 bf16; index weights 32 x
// 5120. Work     a thread holds one of the 16 lanes of 8 rows times 6 or 8 outputs, so that 14 or 16 loads from shared
// memory
//          serve 48 or 64 multiply-adds. The halves of a warp have the same outputs and neighbouring rows.
// Order    16 lanes over K (lanes.cuh): the bits of linear.cu, whatever the rows. Lanes are added by halving: each of
// two
//          threads hands the other half of its sums over, 60 exchanges for 64 sums instead of 256.
// Bytes    W once per 16 or 32 rows (from the second-level cache), x once per 24, 32 or 64 outputs.
// Limit    FP32 multiply-adds: 120 us for the router at 2048 rows on a Hopper card; memory where there are 24 outputs.
// Plain    gpu/cpu/linear_ops.cpp; the test is bit equality.
#include "gpu/cuda/chain_product.hpp"
#include "gpu/cuda/dependent.cuh"
#include "gpu/cuda/weight_rows.cuh"

namespace tandem::gpu::cuda {
namespace {

constexpr int thread_rows = 8;

// A block's tile: threads [output_tiles][row_tiles][lanes], each with `outputs` neighbouring outputs and every
// row_tiles-th row; K in pieces.
template <WeightFormat format_, int row_tiles_, int output_tiles_, int outputs_, int piece_>
struct TileForm {
  static constexpr WeightFormat format = format_;
  static constexpr int row_tiles = row_tiles_, output_tiles = output_tiles_, outputs = outputs_, piece = piece_;
  static constexpr int bytes = weight_bits<format>() / 8;
  static constexpr int threads = lanes * row_tiles * output_tiles;
  static constexpr int rows = thread_rows * row_tiles, all_outputs = outputs * output_tiles;
  // Rows of the two halves of a warp begin on different banks.
  static constexpr int x_stride = piece + lanes;
  static constexpr int x_bytes = rows * x_stride * static_cast<int>(sizeof(float));
  static constexpr int stage_bytes = x_bytes + all_outputs * piece * bytes;
  static constexpr int shared_bytes = stages * stage_bytes;
  // Pieces of 16 bytes in a row of a stage, and how many of them a thread copies.
  static constexpr int x_chunks = piece / 4, w_chunks = piece * bytes / 16;
  static constexpr int x_copies = rows * x_chunks / threads, w_copies = all_outputs * w_chunks / threads;
  static constexpr int square_rows = thread_rows / output_tiles;  // rows whose squares a thread adds up
  static_assert(row_tiles % 2 == 0 && piece % (2 * lanes) == 0 && thread_rows % output_tiles == 0);
  static_assert(rows * x_chunks % threads == 0 && all_outputs * w_chunks % threads == 0);
  static_assert(thread_rows * outputs % lanes == 0, "lanes share the sums");
  static_assert(shared_bytes <= 232448, "what a block may have on GB10");
};

// The copies of one thread: its places in a stage follow from its number.
template <class Form>
struct TileCopies {
  const unsigned char *x[Form::x_copies], *w[Form::w_copies];
  int x_column, w_column;  // first element of K in the piece
  std::int64_t k;

  __device__ TileCopies(const ChainCall& call, std::int64_t first_row, std::int64_t first_output) : k(call.w.k) {
    const int own = static_cast<int>(threadIdx.x);
    x_column = own % Form::x_chunks * 4;
    w_column = own % Form::w_chunks * (16 / Form::bytes);
#pragma unroll
    for (int i = 0; i < Form::x_copies; ++i) {
      const std::int64_t row = first_row + x_row(i);
      x[i] =
          reinterpret_cast<const unsigned char*>(row_of(call.x, row < call.x.rows ? row : call.x.rows - 1) + x_column);
    }
#pragma unroll
    for (int i = 0; i < Form::w_copies; ++i) {
      const std::int64_t output = first_output + w_row(i);
      w[i] = static_cast<const unsigned char*>(call.w.codes) +
             ((output < call.w.n ? output : call.w.n - 1) * k + w_column) * Form::bytes;
    }
  }
  static __device__ int x_row(int i) {
    return (static_cast<int>(threadIdx.x) + i * Form::threads) / Form::x_chunks;
  }
  static __device__ int w_row(int i) {
    return (static_cast<int>(threadIdx.x) + i * Form::threads) / Form::w_chunks;
  }

  // Starts the copies of piece `number`; an empty stage behind the last one.
  __device__ void start(std::int64_t number, unsigned char* shared) const {
    unsigned char* stage = shared + number % stages * Form::stage_bytes;
    const std::int64_t first = number * Form::piece;
    if (first + x_column < k) {
#pragma unroll
      for (int i = 0; i < Form::x_copies; ++i) {
        copy_async_16(stage + (x_row(i) * Form::x_stride + x_column) * static_cast<int>(sizeof(float)),
                      x[i] + first * static_cast<int>(sizeof(float)));
      }
    }
    if (first + w_column < k) {
#pragma unroll
      for (int i = 0; i < Form::w_copies; ++i) {
        copy_async_16(stage + Form::x_bytes + (w_row(i) * Form::piece + w_column) * Form::bytes,
                      w[i] + first * Form::bytes);
      }
    }
    end_stage();
  }
};

template <class Form, bool squares>
struct TileSums {
  float sum[thread_rows * Form::outputs] = {};
  float square[squares ? Form::square_rows : 1] = {};

  // Adds the product of element `i` of the thread's rows and outputs in the stage.
  __device__ __forceinline__ void add(const float* x, const unsigned char* w, const float* own, int i) {
    float xs[thread_rows], ws[Form::outputs];
#pragma unroll
    for (int r = 0; r < thread_rows; ++r) xs[r] = x[r * Form::row_tiles * Form::x_stride + i];
#pragma unroll
    for (int o = 0; o < Form::outputs; ++o) {
      if constexpr (Form::format == WeightFormat::f32) {
        ws[o] = reinterpret_cast<const float*>(w)[o * Form::piece + i];
      } else {
        ws[o] = bf16_to_float(reinterpret_cast<const std::uint16_t*>(w)[o * Form::piece + i]);
      }
    }
#pragma unroll
    for (int r = 0; r < thread_rows; ++r) {
#pragma unroll
      for (int o = 0; o < Form::outputs; ++o) {
        sum[r * Form::outputs + o] = fmaf(xs[r], ws[o], sum[r * Form::outputs + o]);
      }
    }
    if constexpr (squares) {
#pragma unroll
      for (int r = 0; r < Form::square_rows; ++r) {
        const float value = own[r * Form::row_tiles * Form::x_stride + i];
        square[r] = fmaf(value, value, square[r]);
      }
    }
  }

  // Adds the lanes up. Behind it lane l holds the sums number l * n / 16 .. of all n in sum[0 ..].
  __device__ __forceinline__ void add_all_lanes() {
    int count = thread_rows * Form::outputs;
#pragma unroll
    for (int step = lanes / 2; step > 0; step /= 2) {
      count /= 2;
      const bool is_upper = (static_cast<int>(threadIdx.x) & step) != 0;
#pragma unroll
      for (int i = 0; i < thread_rows * Form::outputs / 2; ++i) {
        if (i >= count) continue;
        const float given = is_upper ? sum[i] : sum[i + count], kept = is_upper ? sum[i + count] : sum[i];
        sum[i] = kept + __shfl_xor_sync(full_warp, given, step);
      }
    }
  }
};

template <class Form, bool squares>
__global__ void __launch_bounds__((Form::threads)) chain_tile_kernel(ChainCall call) {
  begin_dependent();
  extern __shared__ __align__(16) unsigned char shared[];
  const std::int64_t first_output = blockIdx.x * std::int64_t{Form::all_outputs};
  const std::int64_t first_row = blockIdx.y * std::int64_t{Form::rows};
  const TileCopies<Form> copies(call, first_row, first_output);
  const int lane = static_cast<int>(threadIdx.x) % lanes, part = static_cast<int>(threadIdx.x) / lanes;
  const int row = part % Form::row_tiles, output = part / Form::row_tiles * Form::outputs;
  const int square_row = row + part / Form::row_tiles * Form::square_rows * Form::row_tiles;
  const std::int64_t pieces = (call.w.k + Form::piece - 1) / Form::piece;
  TileSums<Form, squares> sums;
  for (int number = 0; number < stages - 1; ++number) copies.start(number, shared);
  for (std::int64_t number = 0; number < pieces; ++number) {
    wait_for_stage();
    __syncthreads();  // all have their part of the piece, and nobody reads the one before any more
    copies.start(number + stages - 1, shared);
    const unsigned char* stage = shared + number % stages * Form::stage_bytes;
    const float* x = reinterpret_cast<const float*>(stage) + row * Form::x_stride + lane;
    const float* own = reinterpret_cast<const float*>(stage) + square_row * Form::x_stride + lane;
    const unsigned char* w = stage + Form::x_bytes + (output * Form::piece + lane) * Form::bytes;
    const std::int64_t left = call.w.k - number * Form::piece;
    if (left >= Form::piece) {
#pragma unroll 4
      for (int i = 0; i < Form::piece; i += lanes) sums.add(x, w, own, i);
    } else {
      for (int i = 0; i < static_cast<int>(left); i += lanes) sums.add(x, w, own, i);
    }
  }
  sums.add_all_lanes();
  constexpr int kept = thread_rows * Form::outputs / lanes;
#pragma unroll
  for (int i = 0; i < kept; ++i) {
    const int place = lane * kept + i;
    const std::int64_t r = first_row + row + place / Form::outputs * Form::row_tiles;
    const std::int64_t o = first_output + output + place % Form::outputs;
    if (r < call.x.rows && o < call.w.n) row_of(call.y, r)[o] = rounded(sums.sum[i], call.round);
  }
  if constexpr (squares) {
#pragma unroll
    for (int i = 0; i < Form::square_rows; ++i) {
      const float sum = add_lanes(sums.square[i]);
      const std::int64_t r = first_row + square_row + i * Form::row_tiles;
      if (lane == 0 && blockIdx.x == 0 && r < call.x.rows) row_of(call.squares, r)[0] = sum;
    }
  }
}

template <class Form, bool squares>
cudaError_t launch_tile(cudaStream_t stream, const ChainCall& call) {
  const auto kernel = chain_tile_kernel<Form, squares>;
  const cudaError_t status =
      cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, Form::shared_bytes);
  if (status != cudaSuccess) return status;
  const dim3 grid(static_cast<unsigned>((call.w.n + Form::all_outputs - 1) / Form::all_outputs),
                  static_cast<unsigned>((call.x.rows + Form::rows - 1) / Form::rows));
  return launch_dependent(stream, {grid, Form::threads, 1, Form::shared_bytes}, kernel, call);
}

// 16 rows: 128 blocks at 2048 rows, about one for each multiprocessor of a Hopper card.
using MixTile = TileForm<WeightFormat::f32, 2, 4, 6, 128>;
using NarrowTile = TileForm<WeightFormat::bf16, 2, 4, 8, 64>;
using WideTile = TileForm<WeightFormat::bf16, 4, 8, 8, 64>;

}  // namespace

bool is_chain_tile(const ChainCall& call) {
  return call.x.rows >= chain_rows_tiled && call.w.k % lanes == 0 && call.w.is_aligned &&
         (call.format == WeightFormat::f32 || call.format == WeightFormat::bf16);
}

cudaError_t chain_tile(cudaStream_t stream, const ChainCall& call) {
  const bool squares = call.squares.rows > 0;
  if (call.format == WeightFormat::f32) {
    return squares ? launch_tile<MixTile, true>(stream, call) : launch_tile<MixTile, false>(stream, call);
  }
  if (squares) return cudaErrorNotSupported;
  return call.w.n <= NarrowTile::all_outputs ? launch_tile<NarrowTile, false>(stream, call)
                                             : launch_tile<WideTile, false>(stream, call);
}

}  // namespace tandem::gpu::cuda
