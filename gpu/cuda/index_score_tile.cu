// The scores of index_score.cu for many rows of one sequence: each key is decoded once for eight rows.
//
// Shapes   a block is eight rows, one a warp, and 2048 keys, a page at a time: each warp decodes eight keys of the next
//          page while all score this one. X4 records of 128 dimensions, up to 32 heads.
// Order    gpu/index_order.hpp: blocks of 32 dimensions exact, formed by matrix instructions (index_heads.cuh); a key
//          and a row always have the same bits. Where the scales of a key and of a row's queries are so close that the
//          sums over all blocks are exact too, one chain of matrix instructions forms them: rounding is nowhere, so the
//          order is any. Near scales make them integers (index_integers.cuh): where all rows of a block have such
//          queries, eight keys that do are scored so, others block by block with queries that are read for them.
// Bytes    68 a key for every eight rows, 16 KB of queries a row for every 2048 keys, from the second-level cache; 4
//          out a key and row.
// Limit    instructions, by count: integers take some 46 for eight keys and a row, eight of them matrix instructions;
//          their share of the decode is 25. Others take 62 (16 matrix instructions) or 90 (block by block), and 32.
// Shared   33 KB a block.
// Rows     of one launch may belong to several sequences: neighbours with the same pages are taken together.
#include "gpu/cuda/dependent.cuh"
#include "gpu/cuda/index_integers.cuh"
#include "gpu/cuda/index_score.cuh"

namespace tandem::gpu::cuda {
namespace {

using namespace indexing;

constexpr int tile_rows = 8;  // warps
constexpr int tile_threads = tile_rows * warp_size;
constexpr int page_tiles = page_entries / tile_keys;
constexpr int tile_span = 32 * page_entries;  // keys of a block
static_assert(page_tiles == tile_rows, "every warp decodes one tile of a page");

// A page of decoded keys, a word of each block and lane after the other, or of two blocks where they are integers.
struct PageKeys {
  uint4 words[page_tiles][blocks][warp_size];
  float units[page_tiles][tile_keys];  // of integers, 1 of others
  unsigned spreads[page_tiles];        // of the scales of a tile's keys, see scale_spread and find_unit
};

// Octaves between scales. The products of a head with a key are multiples of 2^(q + k - 4), q the least exponent of a
// query block's largest value and k that of a key block's scale, and their 128 add up to less than 2^(q + k + 11 +
// spreads). So 15 bits and the spreads hold every sum in between; a matrix instruction keeps 24.
constexpr unsigned spread_most = 6, spread_broken = 255;

// Rows base .. base + count - 1 of the work; they share a pool and pages.
struct RowRun {
  int base;
  int count;
  int first;    // entry of key 0
  int visible;  // of the row that sees most
};

__device__ int own_lane() {
  return static_cast<int>(threadIdx.x) % warp_size;
}
__device__ int own_warp() {
  return static_cast<int>(threadIdx.x) / warp_size;
}

// Octaves between the scales of this lane's key; 0 where it has no digits.
__device__ unsigned scale_spread(const KeyCodes& codes) {
  constexpr unsigned scale_least = 32, scale_most = 222;  // far from numbers that a product could lose
  const auto [digits, least, most] = span_of(codes);
  if (digits == 0) return 0;
  return least < scale_least || most > scale_most ? spread_broken : most - least;
}

// Octaves between the largest values of the blocks of a head, the most of all heads. Leaves the exponent of each of
// this lane's heads, 0 where it has no values.
__device__ unsigned query_spread(const QueryHeads& own, unsigned (&exponents)[4]) {
  constexpr unsigned exponent_least = 67, exponent_most = 187;
  unsigned spread = 0;
#pragma unroll
  for (int h = 0; h < 4; ++h) {
    unsigned least = exponent_most, most = exponent_least;
#pragma unroll
    for (int b = 0; b < blocks; ++b) {
      const auto& pair = own.halves[h / 2].queries[b];
      unsigned largest = 0;
      for (const std::uint32_t word : {pair[0][h % 2], pair[0][2 + h % 2], pair[1][h % 2], pair[1][2 + h % 2]}) {
        const unsigned low = word & 0x7FFFU, high = word >> 16 & 0x7FFFU;
        largest = max(largest, max(low, high));
      }
      largest = max(largest, __shfl_xor_sync(full_warp, largest, 1));
      largest = max(largest, __shfl_xor_sync(full_warp, largest, 2));
      if (largest == 0) continue;
      const unsigned exponent = largest >> 7;
      if (exponent < exponent_least || exponent > exponent_most) spread = spread_broken;
      least = exponent < least ? exponent : least;
      most = exponent < most ? most : exponent;
    }
    if (most > least) spread = max(spread, most - least);
    exponents[h] = most == exponent_least && least == exponent_most ? 0 : most;
  }
  return __reduce_max_sync(full_warp, spread);
}

__device__ __forceinline__ KeyTile read_tile(const PageKeys& page, int tile) {
  KeyTile keys;
#pragma unroll
  for (int b = 0; b < blocks; ++b) keys.words[b] = page.words[tile][b][own_lane()];
  return keys;
}

__device__ __forceinline__ unsigned most_spread(const PageKeys& page, int group) {
  unsigned most = 0;
#pragma unroll
  for (int t = 0; t < group_tiles; ++t) most = max(most, page.spreads[group * group_tiles + t]);
  return most;
}

// add_heads where all sums are exact.
__device__ void add_heads_exactly(const QueryHeads& own, const KeyTile& tile, float (&lane)[2]) {
  float dots[2][4] = {};
#pragma unroll
  for (int b = 0; b < blocks; ++b) {
    const uint4 keys = tile.words[b];
#pragma unroll
    for (int m = 0; m < 2; ++m) multiply_add_bf16(dots[m], own.halves[m].queries[b][0], keys.x, keys.y);
#pragma unroll
    for (int m = 0; m < 2; ++m) multiply_add_bf16(dots[m], own.halves[m].queries[b][1], keys.z, keys.w);
  }
#pragma unroll
  for (int c = 0; c < 2; ++c) {
    lane[c] = 0;
#pragma unroll
    for (int h = 0; h < 4; ++h) {
      lane[c] = fmaf(own.halves[h / 2].weights[h % 2], fmaxf(dots[h / 2][2 * (h % 2) + c], 0.0F), lane[c]);
    }
  }
}

// How the rows of a block are scored that do not all have integers.
struct ScaledRow {
  QueryHeads queries;
  unsigned spread;

  __device__ static void store_keys(const KeyCodes& codes, PageKeys& page) {
    const KeyTile tile = decode_keys(codes);
#pragma unroll
    for (int b = 0; b < blocks; ++b) page.words[own_warp()][b][own_lane()] = tile.words[b];
    const unsigned own = __reduce_max_sync(full_warp, scale_spread(codes));
    if (own_lane() == 0) page.spreads[own_warp()] = own;
  }

  template <bool exactly>
  __device__ float score(const PageKeys& page, int group) const {
    float lanes_of_key[group_tiles][2];
#pragma unroll
    for (int t = 0; t < group_tiles; ++t) {
      const KeyTile tile = read_tile(page, group * group_tiles + t);
      exactly ? add_heads_exactly(queries, tile, lanes_of_key[t]) : add_heads(queries, tile, lanes_of_key[t]);
    }
    return add_lanes(lanes_of_key);
  }

  __device__ float score_group(const IndexWork&, int, const PageKeys& page, int group) const {
    return spread + most_spread(page, group) <= spread_most ? score<true>(page, group) : score<false>(page, group);
  }
};

// How rows are scored that all have integers.
struct IntegerRow {
  IntegerHeads heads;

  __device__ static void store_keys(const KeyCodes& codes, PageKeys& page) {
    const KeyUnit unit = find_unit(codes);
    const unsigned own = __reduce_max_sync(full_warp, unit.octaves);
    if (own <= octaves_most) {
      const IntegerTile tile = decode_integers(codes, unit);
#pragma unroll
      for (int b = 0; b < blocks / 2; ++b) page.words[own_warp()][b][own_lane()] = tile.words[b];
    } else {
      const KeyTile tile = decode_keys(codes);
#pragma unroll
      for (int b = 0; b < blocks; ++b) page.words[own_warp()][b][own_lane()] = tile.words[b];
    }
    if (own_lane() % 4 == 0) page.units[own_warp()][own_lane() / 4] = own <= octaves_most ? unit_value(unit) : 1.0F;
    if (own_lane() == 0) page.spreads[own_warp()] = own;
  }

  __device__ void add_tile(const PageKeys& page, int tile, float (&lane)[2]) const {
    IntegerTile keys;
#pragma unroll
    for (int b = 0; b < blocks / 2; ++b) keys.words[b] = page.words[tile][b][own_lane()];
    add_heads(heads, keys, lane);
  }

  // Groups with a tile that is no integers; the queries are not kept for them.
  __device__ void add_mixed(const IndexWork& work, int number, const PageKeys& page, int group,
                            float (&lanes_of_key)[group_tiles][2]) const {
#pragma unroll
    for (int t = 0; t < group_tiles; ++t) {
      lanes_of_key[t][0] = lanes_of_key[t][1] = 0;
      const int tile = group * group_tiles + t;
      if (page.spreads[tile] <= octaves_most) add_tile(page, tile, lanes_of_key[t]);
    }
#pragma unroll 1
    for (int half = 0; half < 2; ++half) {
      HalfHeads queries;
      load_half(work, work.rows[number].row, half, queries);
#pragma unroll
      for (int t = 0; t < group_tiles; ++t) {
        const int tile = group * group_tiles + t;
        if (page.spreads[tile] > octaves_most) add_half(queries, read_tile(page, tile), lanes_of_key[t]);
      }
    }
  }

  // `number` of the work's rows is this warp's.
  __device__ float score_group(const IndexWork& work, int number, const PageKeys& page, int group) const {
    float lanes_of_key[group_tiles][2];
    if (most_spread(page, group) <= octaves_most) {
#pragma unroll
      for (int t = 0; t < group_tiles; ++t) add_tile(page, group * group_tiles + t, lanes_of_key[t]);
    } else {
      add_mixed(work, number, page, group, lanes_of_key);
    }
    return add_lanes(lanes_of_key) * page.units[group * group_tiles + own_key() / tile_keys][own_key() % tile_keys];
  }
};

// The pages of the run, two of which are in shared memory in turn.
template <class Row>
__device__ void score_pages(const IndexWork& work, const RowRun& run, const IndexSource& row, const Row& own,
                            PageKeys (&pages)[2]) {
  const int visible = own_warp() < run.count ? row.visible : 0;
  const int last = run.visible < run.first + tile_span ? run.visible : run.first + tile_span;
  const int own_tile = own_warp() * tile_keys, number = run.base + own_warp();
  const bool is_plain = row.candidates == nullptr && !row.takes_all;
  Row::store_keys(load_codes(row, run.first + own_tile, last), pages[0]);
  int turn = 0;
  for (int first = run.first; first < last; first += page_entries, turn ^= 1) {
    const KeyCodes next = load_codes(row, first + page_entries + own_tile, last);
    __syncthreads();  // this page is there, and nobody reads the other one any more
    for (int entry = first; entry < first + page_entries && entry < visible; entry += group_keys) {
      const float score = own.score_group(work, number, pages[turn], (entry - first) / group_keys);
      const int at = entry + own_key();
      if (!is_plain) {
        store_score(work, work.rows[number], at, score);
      } else if (at < visible) {
        row.scores[at] = score;
      }
    }
    Row::store_keys(next, pages[turn ^ 1]);
  }
}

__device__ void score_rows_of(const IndexWork& work, const RowRun& run, PageKeys (&pages)[2]) {
  const IndexSource row = work.rows[run.base + (own_warp() < run.count ? own_warp() : 0)];
  ScaledRow scaled;
  unsigned exponents[4];
  load_queries(work, row.row, scaled.queries);
  scaled.spread = query_spread(scaled.queries, exponents);
  IntegerRow integers;
  const bool fits = make_integers(scaled.queries, exponents, integers.heads) && scaled.spread <= octaves_most;
  if (__syncthreads_or(!fits)) return score_pages(work, run, row, scaled, pages);
  score_pages(work, run, row, integers, pages);
}

__device__ void score_run(const IndexWork& work, const RowRun& run, PageKeys (&pages)[2]) {
  bool is_scored = false;
  for (int r = 0; r < run.count; ++r) is_scored = is_scored || !work.rows[run.base + r].takes_all;
  if (is_scored) return score_rows_of(work, run, pages);
  if (own_warp() >= run.count) return;
  const IndexSource& row = work.rows[run.base + own_warp()];
  for (int i = own_lane(); i < tile_span; i += warp_size) store_score(work, row, run.first + i, 0);
}

__device__ bool has_same_entries(const IndexSource& a, const IndexSource& b) {
  return a.pool == b.pool && a.pages == b.pages;
}

__global__ void __launch_bounds__(tile_threads, 2) score_tile_kernel(IndexWork work) {
  begin_dependent();
  __shared__ PageKeys pages[2];
  const int base = static_cast<int>(blockIdx.y) * tile_rows, left = static_cast<int>(work.row_count) - base;
  const int rows = left < tile_rows ? left : tile_rows;
  for (int begin = 0; begin < rows;) {
    RowRun run{base + begin, 0, static_cast<int>(blockIdx.x) * tile_span, 0};
    for (; begin < rows && has_same_entries(work.rows[run.base], work.rows[base + begin]); ++begin, ++run.count) {
      const int visible = work.rows[base + begin].visible;
      run.visible = run.visible < visible ? visible : run.visible;
    }
    if (run.first < run.visible) score_run(work, run, pages);
    __syncthreads();  // the next run has keys of its own
  }
}

}  // namespace

cudaError_t score_tiles(cudaStream_t stream, const IndexWork& work) {
  const dim3 grid(static_cast<unsigned>((work.visible_most + tile_span - 1) / tile_span),
                  static_cast<unsigned>((work.row_count + tile_rows - 1) / tile_rows));
  return launch_dependent(stream, {grid, tile_threads, 1, 0}, score_tile_kernel, work);
}

}  // namespace tandem::gpu::cuda
