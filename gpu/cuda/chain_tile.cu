// y[r, o] = x[r, :] . W[o, :] for few outputs and many rows: what chain_product.cu computes, where arithmetic is the
// limit and not latency.
//
// Shapes   mHC: rows x 24 outputs x 20480 f32 and the rows' square sums; router 384 x 5120 bf16; index weights 32 x
//          5120 bf16.
// Work     a thread holds one or two of the 16 lanes of 8 rows times 6 or 8 outputs: 14 or 16 loads from shared memory
//          serve 48 to 128 multiply-adds. Threads of a warp share outputs and neighbouring rows.
// Order    16 lanes over K (lanes.cuh): the bits of linear.cu, whatever the rows. Lanes are added by halving: each of
//          two threads hands half of its sums over, 60 exchanges for 64 sums instead of 256.
// Bytes    W once per 16 or 32 rows (from the second-level cache), x once per 24, 32 or 64 outputs.
// Limit    FP32 multiply-adds: 120 us for the router at 2048 rows on a Hopper card; memory where there are 24 outputs.
// Plain    gpu/cpu/linear_ops.cpp; the test is bit equality.
#include <type_traits>

#include "gpu/cuda/chain_product.hpp"
#include "gpu/cuda/dependent.cuh"
#include "gpu/cuda/exl3/product.hpp"
#include "gpu/cuda/weight_rows.cuh"

namespace tandem::gpu::cuda {
namespace {

// A block's tile: threads [output_tiles][row_tiles][lane groups], each with `own_lanes` neighbouring lanes of every
// row_tiles-th row times every output_tiles-th output; K in pieces.
template <WeightFormat format_, int own_lanes_, int rows_, int outputs_, int row_tiles_, int output_tiles_, int piece_>
struct TileForm {
  static constexpr WeightFormat format = format_;
  static constexpr int own_lanes = own_lanes_, own_rows = rows_, own_outputs = outputs_;
  static constexpr int row_tiles = row_tiles_, output_tiles = output_tiles_, piece = piece_;
  static constexpr int bytes = weight_bits<format>() / 8;
  static constexpr int team = lanes / own_lanes;  // threads of the lanes of one sum
  static constexpr int threads = team * row_tiles * output_tiles;
  static constexpr int rows = own_rows * row_tiles, outputs = own_outputs * output_tiles;
  // Neighbouring rows and outputs begin on different banks.
  static constexpr int x_stride = piece + lanes, w_stride = piece + lanes;
  static constexpr int x_bytes = rows * x_stride * static_cast<int>(sizeof(float));
  static constexpr int stage_bytes = x_bytes + outputs * w_stride * bytes;
  static constexpr int shared_bytes = stages * stage_bytes;
  // Pieces of 16 bytes in a row of a stage, and how many of them a thread copies.
  static constexpr int x_chunks = piece / 4, w_chunks = piece * bytes / 16;
  static constexpr int x_copies = rows * x_chunks / threads, w_copies = outputs * w_chunks / threads;
  static constexpr int square_rows = own_rows / output_tiles;  // rows whose squares a thread adds up
  static_assert(piece % (2 * lanes) == 0 && threads % warp_size == 0);
  static_assert(rows * x_chunks % threads == 0 && outputs * w_chunks % threads == 0);
  static_assert(threads % x_chunks == 0 && threads % w_chunks == 0, "a thread copies the same columns of all its rows");
  static_assert(own_rows * own_outputs % team == 0, "threads share the sums");
  static_assert(shared_bytes <= (has_large_chunks ? 232448 : 101376), "what a block may have on Hopper and GB10");
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
        copy_async_16(stage + Form::x_bytes + (w_row(i) * Form::w_stride + w_column) * Form::bytes,
                      w[i] + first * Form::bytes);
      }
    }
    end_stage();
  }
};

// `count` neighbouring values from shared memory in one load.
template <int count>
__device__ __forceinline__ void load_near(const float* from, float (&to)[count]) {
  if constexpr (count == 1) {
    to[0] = *from;
  } else {
    static_assert(count == 2);
    const float2 two = *reinterpret_cast<const float2*>(from);
    to[0] = two.x, to[1] = two.y;
  }
}
template <int count>
__device__ __forceinline__ void load_near(const std::uint16_t* from, float (&to)[count]) {
  if constexpr (count == 1) {
    to[0] = bf16_to_float(*from);
  } else {
    static_assert(count == 2);
    const std::uint32_t two = *reinterpret_cast<const std::uint32_t*>(from);
    to[0] = __uint_as_float(two << 16), to[1] = __uint_as_float(two & 0xFFFF0000U);
  }
}

// What a thread reads of a stage: its first elements.
template <class Form>
struct TileView {
  using Weight = std::conditional_t<Form::format == WeightFormat::f32, float, std::uint16_t>;
  const float *x, *squares;
  const Weight* w;
};

// The operands of one step of 16 elements of K.
template <class Form, bool squares>
struct TileStep {
  float x[Form::own_rows][Form::own_lanes], w[Form::own_outputs][Form::own_lanes];
  float square[squares ? Form::square_rows : 1][Form::own_lanes];

  __device__ __forceinline__ void load(const TileView<Form>& view, int i) {
#pragma unroll
    for (int r = 0; r < Form::own_rows; ++r) load_near(view.x + r * Form::row_tiles * Form::x_stride + i, x[r]);
#pragma unroll
    for (int o = 0; o < Form::own_outputs; ++o) load_near(view.w + o * Form::output_tiles * Form::w_stride + i, w[o]);
    if constexpr (squares) {
#pragma unroll
      for (int r = 0; r < Form::square_rows; ++r) {
        load_near(view.squares + r * Form::row_tiles * Form::x_stride + i, square[r]);
      }
    }
  }
};

template <class Form, bool squares>
struct TileSums {
  static constexpr int count = Form::own_rows * Form::own_outputs;
  float sum[count][Form::own_lanes] = {};
  float square[squares ? Form::square_rows : 1][Form::own_lanes] = {};

  __device__ __forceinline__ void add(const TileStep<Form, squares>& step) {
#pragma unroll
    for (int r = 0; r < Form::own_rows; ++r) {
#pragma unroll
      for (int o = 0; o < Form::own_outputs; ++o) {
#pragma unroll
        for (int l = 0; l < Form::own_lanes; ++l) {
          float& own = sum[r * Form::own_outputs + o][l];
          own = fmaf(step.x[r][l], step.w[o][l], own);
        }
      }
    }
    if constexpr (squares) {
#pragma unroll
      for (int r = 0; r < Form::square_rows; ++r) {
#pragma unroll
        for (int l = 0; l < Form::own_lanes; ++l)
          square[r][l] = fmaf(step.square[r][l], step.square[r][l], square[r][l]);
      }
    }
  }

  // A whole piece: the operands of a step are loaded before the products of the one before it.
  __device__ __forceinline__ void add_piece(const TileView<Form>& view) {
    constexpr int steps = Form::piece / lanes;
    TileStep<Form, squares> step[2];
    step[0].load(view, 0);
#pragma unroll
    for (int s = 0; s < steps; ++s) {
      if (s + 1 < steps) step[(s + 1) % 2].load(view, (s + 1) * lanes);
      add(step[s % 2]);
    }
  }

  // Adds the lanes up. Behind it thread t of a team holds the sums number t * count / team .. of all in sum[0 ..][0].
  __device__ __forceinline__ void add_all_lanes() {
    int left = count;
#pragma unroll
    for (int step = Form::team / 2; step > 0; step /= 2) {
      left /= 2;
      const bool is_upper = (static_cast<int>(threadIdx.x) & step) != 0;
#pragma unroll
      for (int i = 0; i < count / 2; ++i) {
        if (i >= left) continue;
#pragma unroll
        for (int l = 0; l < Form::own_lanes; ++l) {
          const float given = is_upper ? sum[i][l] : sum[i + left][l], kept = is_upper ? sum[i + left][l] : sum[i][l];
          sum[i][l] = kept + __shfl_xor_sync(full_warp, given, step);
        }
      }
    }
#pragma unroll
    for (int i = 0; i < count / Form::team; ++i) sum[i][0] = add_own(sum[i]);
  }

  // The lanes of a thread, the last levels of the tree.
  static __device__ __forceinline__ float add_own(const float (&own)[Form::own_lanes]) {
    if constexpr (Form::own_lanes == 1) return own[0];
    if constexpr (Form::own_lanes == 2) return own[0] + own[1];
  }
  static __device__ __forceinline__ float add_team(const float (&own)[Form::own_lanes]) {
    float all[Form::own_lanes];
#pragma unroll
    for (int l = 0; l < Form::own_lanes; ++l) {
      all[l] = own[l];
#pragma unroll
      for (int step = Form::team / 2; step > 0; step /= 2) all[l] += __shfl_xor_sync(full_warp, all[l], step);
    }
    return add_own(all);
  }
};

template <class Form, bool squares>
__global__ void __launch_bounds__((Form::threads)) chain_tile_kernel(ChainCall call) {
  begin_dependent();
  extern __shared__ __align__(16) unsigned char shared[];
  const std::int64_t first_output = blockIdx.x * std::int64_t{Form::outputs};
  const std::int64_t first_row = blockIdx.y * std::int64_t{Form::rows};
  const TileCopies<Form> copies(call, first_row, first_output);
  const int member = static_cast<int>(threadIdx.x) % Form::team, part = static_cast<int>(threadIdx.x) / Form::team;
  const int row = part % Form::row_tiles, output = part / Form::row_tiles;
  const int square_row = row + output * Form::square_rows * Form::row_tiles;
  const std::int64_t pieces = (call.w.k + Form::piece - 1) / Form::piece;
  TileSums<Form, squares> sums;
  for (int number = 0; number < stages - 1; ++number) copies.start(number, shared);
  for (std::int64_t number = 0; number < pieces; ++number) {
    wait_for_stage();
    __syncthreads();  // all have their part of the piece, and nobody reads the one before any more
    copies.start(number + stages - 1, shared);
    const unsigned char* stage = shared + number % stages * Form::stage_bytes;
    const auto* x = reinterpret_cast<const float*>(stage) + member * Form::own_lanes;
    const auto* w = reinterpret_cast<const typename TileView<Form>::Weight*>(stage + Form::x_bytes);
    const TileView<Form> view{x + row * Form::x_stride, x + square_row * Form::x_stride,
                              w + output * Form::w_stride + member * Form::own_lanes};
    const std::int64_t left = call.w.k - number * Form::piece;
    if (left >= Form::piece) {
      sums.add_piece(view);
    } else {
      for (int i = 0; i < static_cast<int>(left); i += lanes) {
        TileStep<Form, squares> step;
        step.load(view, i);
        sums.add(step);
      }
    }
  }
  sums.add_all_lanes();
  constexpr int kept = TileSums<Form, squares>::count / Form::team;
#pragma unroll
  for (int i = 0; i < kept; ++i) {
    const int place = member * kept + i;
    const std::int64_t r = first_row + row + place / Form::own_outputs * Form::row_tiles;
    const std::int64_t o = first_output + output + place % Form::own_outputs * Form::output_tiles;
    if (r < call.x.rows && o < call.w.n) row_of(call.y, r)[o] = rounded(sums.sum[i][0], call.round);
  }
  if constexpr (squares) {
    static_assert(Form::own_rows % Form::output_tiles == 0, "output tiles share the rows");
#pragma unroll
    for (int i = 0; i < Form::square_rows; ++i) {
      const float sum = sums.add_team(sums.square[i]);
      const std::int64_t r = first_row + square_row + i * Form::row_tiles;
      if (member == 0 && blockIdx.x == 0 && r < call.x.rows) row_of(call.squares, r)[0] = sum;
    }
  }
}

template <class Form, bool squares>
cudaError_t launch_tile(cudaStream_t stream, const ChainCall& call) {
  const auto kernel = chain_tile_kernel<Form, squares>;
  const cudaError_t status =
      cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, Form::shared_bytes);
  if (status != cudaSuccess) return status;
  const dim3 grid(static_cast<unsigned>((call.w.n + Form::outputs - 1) / Form::outputs),
                  static_cast<unsigned>((call.x.rows + Form::rows - 1) / Form::rows));
  return launch_dependent(stream, {grid, Form::threads, 1, Form::shared_bytes}, kernel, call);
}

// 16 rows: 128 blocks at 2048 rows, about one for each multiprocessor of a Hopper card. Long pieces where they fit:
// what a piece costs besides its products, the barrier and the first loads, then comes half as often.
using MixTile = TileForm<WeightFormat::f32, 1, 8, 6, 2, 4, has_large_chunks ? 256 : 128>;
using NarrowTile = TileForm<WeightFormat::bf16, 1, 8, 8, 2, 4, 64>;
using WideTile = TileForm<WeightFormat::bf16, 2, 8, 8, 4, 8, has_large_chunks ? 128 : 64>;

}  // namespace

// Fewer rows or outputs leave multiprocessors without a tile, and the short chains of chain_product.cu are faster.
bool is_chain_tile(const ChainCall& call) {
  constexpr std::int64_t f32_rows_least = 256, bf16_rows_least = 128, bf16_products_least = 16 << 10;
  if (call.w.k % lanes != 0 || !call.w.is_aligned) return false;
  if (call.format == WeightFormat::f32) return call.x.rows >= f32_rows_least;
  return call.format == WeightFormat::bf16 && call.x.rows >= bf16_rows_least &&
         call.x.rows * call.w.n >= bf16_products_least;
}

cudaError_t chain_tile(cudaStream_t stream, const ChainCall& call) {
  const bool squares = call.squares.rows > 0;
  if (call.format == WeightFormat::f32) {
    return squares ? launch_tile<MixTile, true>(stream, call) : launch_tile<MixTile, false>(stream, call);
  }
  if (squares) return cudaErrorNotSupported;
  // Small tiles as long as large ones leave multiprocessors without one.
  constexpr std::int64_t wide_rows_least = 1536;
  const bool is_wide = call.w.n > NarrowTile::outputs && call.x.rows >= wide_rows_least;
  return is_wide ? launch_tile<WideTile, false>(stream, call) : launch_tile<NarrowTile, false>(stream, call);
}

}  // namespace tandem::gpu::cuda
