// y[r, o] = x[r, :] . W[o, :] for few outputs and few rows, where neither bandwidth nor arithmetic but waiting is the
// limit.
//
// Shapes   mHC mix: 24 x 20480 f32 and the row's own square sum; router 384 x 5120 bf16; index weights 32 x 5120 bf16.
// Work     a block is a few outputs and rows; all its threads copy both through shared memory, four pieces deep, and
//          16 lanes a pair of output and row add them up.
// Order    16 lanes over K (lanes.cuh): the bits of linear.cu, whatever the rows.
// Bytes    W once per block of rows, x once per block of outputs (from the second-level cache).
// Limit    the chain of K / 16 dependent multiply-adds: 2.6 us at 20480 on a Hopper card.
// Many     rows are those of chain_tile.cu.
// Then     the last block of a row may go on with its products: the coefficients of the mix, the choice of experts.
// Plain    gpu/cpu/linear_ops.cpp; the test is bit equality.
#include <type_traits>

#include "gpu/cuda/chain_product.hpp"
#include "gpu/cuda/choice.cuh"
#include "gpu/cuda/dependent.cuh"
#include "gpu/cuda/last_block.cuh"
#include "gpu/cuda/mix_split.cuh"
#include "gpu/cuda/weight_rows.cuh"

namespace tandem::gpu::cuda {
namespace {

constexpr int copiers_least = 128;
constexpr std::int64_t outputs_most = 512;  // more of them fill a device in the plain kernel
constexpr std::int64_t inputs_least = 1024;

// One block's part: `outputs` x `rows` products, K in pieces of `piece` elements.
template <WeightFormat format, int outputs, int rows, int piece>
struct ChainTile {
  static constexpr int bytes = weight_bits<format>() / 8;
  // One pair leaves most of a block to copy: its warp only adds.
  static constexpr int adders = outputs * rows == 1 ? warp_size : 0;
  static constexpr int copiers = outputs * rows * lanes < copiers_least ? copiers_least : outputs * rows * lanes;
  static constexpr int threads = adders + copiers;
  // Rows of two halves of a warp begin on different banks.
  static constexpr int w_stride = (piece + lanes) * bytes;
  static constexpr int x_stride = piece + lanes;
  static constexpr int stage_bytes = outputs * w_stride + rows * x_stride * static_cast<int>(sizeof(float));
  static constexpr int shared_bytes = stages * stage_bytes;
  static_assert(shared_bytes <= 101376, "what a block may have on GB10");

  const ChainCall& call;
  std::int64_t first_output, first_row;
  unsigned char* shared;

  // Row `o` of the weights, or the row of x itself behind the last output: its square sum.
  __device__ const unsigned char* weight_row(int o) const {
    const std::int64_t output = first_output + o;
    if (output < call.w.n) return static_cast<const unsigned char*>(call.w.codes) + output * call.w.k * bytes;
    if (call.squares.rows > 0) return reinterpret_cast<const unsigned char*>(input_row(0));
    return static_cast<const unsigned char*>(call.w.codes) + (call.w.n - 1) * call.w.k * bytes;
  }
  __device__ const float* input_row(int r) const {
    return row_of(call.x, first_row + r < call.x.rows ? first_row + r : call.x.rows - 1);
  }
  __device__ std::int64_t count(std::int64_t number) const {
    const std::int64_t left = call.w.k - number * piece;
    return left < piece ? left : piece;
  }

  // Whether the row itself is among its weights.
  __device__ bool has_square() const { return call.squares.rows > 0 && first_output + outputs > call.w.n; }

  // Start the copies of piece `number`, nothing behind the last one; end_stage follows both.
  __device__ void start_weights(std::int64_t number) const {
    unsigned char* stage = shared + number % stages * stage_bytes;
    const std::int64_t left = count(number);
    constexpr int w_chunks = piece * bytes / 16;
    const int own = static_cast<int>(threadIdx.x) - adders;
    for (int i = own; i >= 0 && i < outputs * w_chunks; i += copiers) {
      const int o = i / w_chunks, at = i % w_chunks * 16;
      if (at < left * bytes) copy_async_16(stage + o * w_stride + at, weight_row(o) + number * piece * bytes + at);
    }
  }
  __device__ void start_inputs(std::int64_t number) const {
    unsigned char* stage = shared + number % stages * stage_bytes;
    const std::int64_t left = count(number);
    constexpr int x_chunks = piece / 4;
    const int own = static_cast<int>(threadIdx.x) - adders;
    for (int i = own; i >= 0 && i < rows * x_chunks; i += copiers) {
      const int r = i / x_chunks, at = i % x_chunks * 4;
      unsigned char* to = stage + outputs * w_stride + (r * x_stride + at) * static_cast<int>(sizeof(float));
      if (at < left) copy_async_16(to, reinterpret_cast<const unsigned char*>(input_row(r) + number * piece + at));
    }
  }

  __device__ float add(std::int64_t number, int o, int r, float sum) const {
    const unsigned char* stage = shared + number % stages * stage_bytes;
    const int lane = static_cast<int>(threadIdx.x) % lanes, left = static_cast<int>(count(number));
    const unsigned char* w = stage + o * w_stride;
    const float* x = reinterpret_cast<const float*>(stage + outputs * w_stride) + r * x_stride;
    const auto value = [&](int i) {
      if constexpr (format == WeightFormat::f32) return reinterpret_cast<const float*>(w)[i];
      return bf16_to_float(reinterpret_cast<const std::uint16_t*>(w)[i]);
    };
    if (left < piece) {
      for (int i = lane; i < left; i += lanes) sum = fmaf(x[i], value(i), sum);
      return sum;
    }
    // A whole piece: sixteen elements are loaded while the chain of the multiply-adds of those before runs.
    constexpr int ahead = 16;
    static_assert(piece % (ahead * lanes) == 0);
    float ws[2][ahead], xs[2][ahead];
    const auto fetch = [&](int first, int to) {
#pragma unroll
      for (int a = 0; a < ahead; ++a) {
        ws[to][a] = value(first + a * lanes);
        xs[to][a] = x[first + a * lanes];
      }
    };
    fetch(lane, 0);
#pragma unroll
    for (int batch = 0; batch < piece / (ahead * lanes); ++batch) {
      if (batch + 1 < piece / (ahead * lanes)) fetch(lane + (batch + 1) * ahead * lanes, (batch + 1) % 2);
#pragma unroll
      for (int a = 0; a < ahead; ++a) sum = fmaf(xs[batch % 2][a], ws[batch % 2][a], sum);
    }
    return sum;
  }
};

// What becomes of a product, and what the last block of a group of rows does with all of them.
struct Nothing {
  static constexpr bool lets_late = false;

  __device__ float made_of(float product) const { return product; }
};

struct SplitMix {
  static constexpr bool lets_late = false;
  MixCall call;
  unsigned* tickets;

  __device__ float made_of(float product) const { return product; }
  __device__ void operator()(std::int64_t first, int count, unsigned char*) const {
    const int warp = static_cast<int>(threadIdx.x) / warp_size;
    if (warp >= count) return;
    call.mult == 4 ? split_row<4>(call, first + warp) : split_row<0>(call, first + warp);
  }
};

struct ChooseExperts {
  // The products of experts that come next would take the place of what runs beside the router, and wait in it.
  static constexpr bool lets_late = true;
  RouteWork work;
  unsigned* tickets;

  // A block makes the scores of its own experts.
  __device__ float made_of(float product) const { return score_of(work, product); }
  // They take the place of the staged pieces.
  __device__ void operator()(std::int64_t first, int count, unsigned char* shared) const {
    const int experts = static_cast<int>(work.products.cols), warp = static_cast<int>(threadIdx.x) / warp_size;
    auto* scores = reinterpret_cast<float*>(shared);
    auto* biased = reinterpret_cast<unsigned*>(scores + count * experts);
    for (int i = threadIdx.x; i < count * experts; i += blockDim.x) {
      scores[i] = row_of(work.products, first + i / experts)[i % experts];
      biased[i] = ordered(biased_score(work, scores[i], i % experts));
    }
    __syncthreads();
    if (warp < count) choose_in_warp(work, first + warp, scores + warp * experts, biased + warp * experts);
  }
};

template <WeightFormat format, int outputs, int rows, int piece, class Then>
__global__ void __launch_bounds__((ChainTile<format, outputs, rows, piece>::threads))
    chain_kernel(ChainCall call, Then then) {
  extern __shared__ __align__(16) unsigned char shared[];
  using Tile = ChainTile<format, outputs, rows, piece>;
  const Tile tile{call, blockIdx.x * std::int64_t{outputs}, blockIdx.y * std::int64_t{rows}, shared};
  const int pair = static_cast<int>(threadIdx.x) / lanes, o = pair / rows % outputs, r = pair % rows;
  const std::int64_t pieces = (call.w.k + piece - 1) / piece;
  float sum = 0;
  // Weights do not change: theirs are requested before the kernels in front have ended.
  if constexpr (!Then::lets_late) let_next_kernel_start();
  const bool begins = !tile.has_square();
  for (int number = 0; begins && number < stages - 1; ++number) tile.start_weights(number);
  wait_for_earlier_kernels();
  for (int number = 0; number < stages - 1; ++number) {
    if (!begins) tile.start_weights(number);
    tile.start_inputs(number);
    end_stage();
  }
  for (std::int64_t number = 0; number < pieces; ++number) {
    wait_for_stage();
    __syncthreads();  // all have their part of the piece, and nobody reads the one before any more
    tile.start_weights(number + stages - 1);
    tile.start_inputs(number + stages - 1);
    end_stage();
    if (pair < outputs * rows) sum = tile.add(number, o, r, sum);
  }
  if constexpr (Then::lets_late) let_next_kernel_start();
  sum = add_lanes(sum);
  const std::int64_t output = tile.first_output + o, row = tile.first_row + r;
  const bool is_mine = threadIdx.x % lanes == 0 && pair < outputs * rows && row < call.x.rows;
  if (is_mine && output < call.w.n) {
    row_of(call.y, row)[output] = then.made_of(rounded(sum, call.round));
  } else if (is_mine && output == call.w.n && call.squares.rows > 0) {
    row_of(call.squares, row)[0] = sum;
  }
  if constexpr (!std::is_same_v<Then, Nothing>) {
    if (!is_last_block(then.tickets + blockIdx.y, gridDim.x)) return;
    const std::int64_t left = call.x.rows - tile.first_row;
    then(tile.first_row, static_cast<int>(left < rows ? left : rows), shared);
  }
}

template <WeightFormat format, int outputs, int rows, int piece, class Then>
cudaError_t launch(cudaStream_t stream, const ChainCall& call, const Then& then) {
  using Tile = ChainTile<format, outputs, rows, piece>;
  static_assert(Tile::threads >= rows * warp_size, "a warp chooses for a row");
  static_assert(Tile::shared_bytes >= 2 * rows * choice_experts_max * static_cast<int>(sizeof(float)),
                "scores of all rows, and in order");
  const auto kernel = chain_kernel<format, outputs, rows, piece, Then>;
  const cudaError_t status =
      cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, Tile::shared_bytes);
  if (status != cudaSuccess) return status;
  const std::int64_t wanted = call.w.n + (call.squares.rows > 0 ? 1 : 0);
  const dim3 grid(static_cast<unsigned>((wanted + outputs - 1) / outputs),
                  static_cast<unsigned>((call.x.rows + rows - 1) / rows));
  return launch_dependent(stream, {grid, Tile::threads, 1, Tile::shared_bytes}, kernel, call, then);
}

template <class Then>
cudaError_t launch_bf16(cudaStream_t stream, const ChainCall& call, const Then& then) {
  // Three quarters of a row of 5120 are on their way before the first sum.
  if (call.x.rows == 1) return launch<WeightFormat::bf16, 4, 1, 1280>(stream, call, then);
  // Few rows in two halves: with four outputs a block, two blocks a multiprocessor take them all at once.
  if (call.x.rows <= 4) return launch<WeightFormat::bf16, 4, 2, 1280>(stream, call, then);
  if (call.x.rows <= 6) return launch<WeightFormat::bf16, 4, 3, 1024>(stream, call, then);
  return launch<WeightFormat::bf16, 8, 4, 512>(stream, call, then);
}

}  // namespace

bool is_chain(const Tensor& x, const Linear& weight) {
  const bool is_plain = weight.format == WeightFormat::f32 || weight.format == WeightFormat::bf16;
  return is_plain && weight.n <= outputs_most && weight.k >= inputs_least && matrix_of(weight, x).is_aligned;
}

// A square sum takes the row itself as its weights: one row a block, which many rows cannot afford.
cudaError_t chain_product(cudaStream_t stream, const ChainCall& call) {
  if (is_chain_tile(call)) return chain_tile(stream, call);
  if (call.format == WeightFormat::f32) {
    const bool is_wide = call.x.rows >= chain_rows_many && call.squares.rows == 0;
    return is_wide ? launch<WeightFormat::f32, 8, 4, 512>(stream, call, Nothing{})
                   : launch<WeightFormat::f32, 1, 1, 2560>(stream, call, Nothing{});
  }
  return launch_bf16(stream, call, Nothing{});
}

bool is_chain_mix(const ChainCall& call) {
  return call.format == WeightFormat::f32 && call.squares.rows > 0 && call.x.rows < chain_rows_many &&
         call.x.rows <= ticket_rows_most;
}

cudaError_t chain_mix(cudaStream_t stream, const ChainCall& call, const MixCall& mix, unsigned* tickets) {
  if (mix.mult > mhc_streams_max) return cudaErrorNotSupported;
  return launch<WeightFormat::f32, 1, 1, 2560>(stream, call, SplitMix{mix, tickets});
}

bool is_chain_route(const ChainCall& call, const RouteWork& route) {
  return call.format == WeightFormat::bf16 && call.x.rows <= ticket_rows_most && call.w.n <= choice_experts_max &&
         route.ids.cols <= choice_slots_max && route.ids.cols <= call.w.n;
}

cudaError_t chain_route(cudaStream_t stream, const ChainCall& call, const RouteWork& route, unsigned* tickets) {
  return launch_bf16(stream, call, ChooseExperts{route, tickets});
}

}  // namespace tandem::gpu::cuda
