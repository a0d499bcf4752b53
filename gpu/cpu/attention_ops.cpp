// Online softmax over blocks of 64 keys, K = V. A unit of work is one row and up to 16 heads; it decodes the row's keys
// itself.
//
// Blocks are counted from the row's own first key, window keys first, so a row's bits depend on its own keys alone.
#include "gpu/cpu/attention_ops.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "gpu/cpu/row_ops.hpp"
#include "gpu/cpu/simd/kernels.hpp"

namespace tandem::gpu {
namespace {

using simd::lanes;

constexpr std::int64_t key_block = 64;
constexpr int head_block = 16;

// One worker's memory.
struct Scratch {
  std::vector<float> keys;               // [key_block, d]
  std::vector<float> q;                  // [head_block, d padded to lanes]
  std::vector<float> acc;                // [head_block, key_block, lanes]
  std::vector<float> scores;             // [head_block, key_block], then the exps
  std::vector<float> out;                // [head_block, d]
  std::vector<float> most, total, keep;  // [head_block]: running maximum, denominator, factor of the old sums
};

Scratch make_scratch(int head_dim) {
  const auto d = static_cast<std::size_t>((head_dim + lanes - 1) / lanes * lanes);
  Scratch s;
  s.keys.resize(key_block * d);
  s.q.resize(head_block * d);
  s.acc.resize(head_block * key_block * lanes);
  s.scores.resize(head_block * key_block);
  s.out.resize(head_block * d);
  for (auto* v : {&s.most, &s.total, &s.keep}) v->resize(head_block);
  return s;
}

std::int64_t window_count(const AttentionRow& row) {
  return std::max<std::int64_t>(row.window_last - row.window_first + 1, 0);
}

std::int64_t selected_count(const AttentionRow& row) {
  return std::find(row.selected, row.selected + row.selected_count, -1) - row.selected;
}

void decode_keys(const AttentionRow& row, std::int64_t first, std::int64_t count, int head_dim, std::int64_t stride,
                 float* keys) {
  const std::int64_t window = window_count(row);
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t key = first + i;
    float* out = keys + i * stride;
    if (key < window) {
      decode_record(row.window.format, row.window.at(row.window_first + key), head_dim, out);
    } else {
      decode_record(row.compressed.format, row.compressed.at(row.selected[key - window]), head_dim, out);
    }
  }
}

// dots[h][t] = q_h . k_t as one chain over the dimensions, [head_block, key_block].
void chain_dots(RowList q, const Scratch& s, std::int64_t count, std::int64_t stride, float* dots) {
  std::array<float, head_block * lanes> sums;
  for (std::int64_t first = 0; first < count; first += lanes) {
    const std::int64_t cols = std::min<std::int64_t>(lanes, count - first);
    sums.fill(0.0F);
    const auto heads = static_cast<std::int64_t>(q.size());
    simd::continue_chains({q.data(), 0, s.keys.data() + first * stride, stride, heads, cols, stride, sums.data()});
    for (std::int64_t h = 0; h < heads; ++h) std::copy_n(sums.data() + h * lanes, cols, dots + h * key_block + first);
  }
}

// dots[h][t] = q_h . k_t in sixteen lanes, [head_block, key_block].
void lane_dots(RowList q, Scratch& s, std::int64_t count, std::int64_t stride, float* dots) {
  simd::Tile tile;
  tile.x = q.data();
  tile.w = s.keys.data();
  tile.w_stride = stride;
  tile.acc = s.acc.data();
  tile.acc_stride = key_block;
  tile.rows = static_cast<std::int64_t>(q.size());
  tile.cols = (count + simd::tile_cols - 1) / simd::tile_cols * simd::tile_cols;
  tile.k = stride;
  simd::multiply_tile(tile);
  for (std::int64_t h = 0; h < tile.rows; ++h) {
    for (std::int64_t t = 0; t < count; ++t)
      dots[h * key_block + t] = simd::add_lanes(s.acc.data() + (h * key_block + t) * lanes);
  }
}

// scores[h][t] = (q_h . k_t) d^-0.5
void score_block(const AttentionCall& call, SumOrder order, Scratch& s, int heads, std::int64_t count) {
  const auto stride = static_cast<std::int64_t>(s.keys.size()) / key_block;
  const std::vector<const float*> q = row_pointers(s.q.data(), heads, stride);
  if (order == SumOrder::reference) {
    chain_dots(q, s, count, stride, s.scores.data());
  } else {
    lane_dots(q, s, count, stride, s.scores.data());
  }
  const auto scale = static_cast<float>(1.0 / std::sqrt(static_cast<double>(call.head_dim)));
  for (int h = 0; h < heads; ++h)
    simd::scale(scale, s.scores.data() + h * key_block, count, s.scores.data() + h * key_block);
}

// Turns one head's scores into exps relative to the new running maximum; updates denominator and factor of the old
// sums.
void soften(Scratch& s, int head, std::int64_t count, bool round) {
  const auto h = static_cast<std::size_t>(head);
  float* p = s.scores.data() + head * key_block;
  const float most = std::max(s.most[h], *std::max_element(p, p + count));
  float keep = s.most[h] - most;
  simd::exp(&keep, 1);
  for (std::int64_t t = 0; t < count; ++t) p[t] -= most;
  simd::exp(p, count);
  float sums[lanes] = {};
  for (std::int64_t t = 0; t < count; ++t) sums[t % lanes] += p[t];
  s.total[h] = s.total[h] * keep + simd::add_lanes(sums);
  s.most[h] = most;
  s.keep[h] = keep;
  if (round) simd::round_bf16(p, count);
}

// Divides by the denominator, to which the sink adds itself, and stores the result.
void finish_head(const AttentionCall& call, Scratch& s, int head, std::int64_t stride, float* out, float sink) {
  const auto h = static_cast<std::size_t>(head);
  float sink_exp = sink - s.most[h];
  simd::exp(&sink_exp, 1);
  simd::scale(1.0F / (s.total[h] + sink_exp), s.out.data() + head * stride, call.head_dim, out);
  if (call.bf16) simd::round_bf16(out, call.head_dim);
}

void attend(const AttentionCall& call, SumOrder order, Scratch& s, std::int64_t row, int first_head) {
  const AttentionRow& keys = call.rows[static_cast<std::size_t>(row)];
  const int heads = std::min(head_block, call.heads - first_head);
  const std::int64_t d = call.head_dim, stride = (d + lanes - 1) / lanes * lanes;
  const std::int64_t total = window_count(keys) + selected_count(keys);
  std::fill(s.out.begin(), s.out.end(), 0.0F);
  std::fill(s.total.begin(), s.total.end(), 0.0F);
  // A finite start: -inf would make NaN of -inf - -inf.
  std::fill(s.most.begin(), s.most.end(), std::numeric_limits<float>::lowest());
  for (int h = 0; h < heads; ++h)
    std::copy_n(call.q.row<float>(row) + (first_head + h) * d, d, s.q.data() + h * stride);
  for (std::int64_t first = 0; first < total; first += key_block) {
    const std::int64_t count = std::min(key_block, total - first);
    decode_keys(keys, first, count, call.head_dim, stride, s.keys.data());
    score_block(call, order, s, heads, count);
    for (int h = 0; h < heads; ++h) soften(s, h, count, call.bf16);
    simd::WeightedSum sum;
    sum.p = s.scores.data();
    sum.p_stride = key_block;
    sum.keep = s.keep.data();
    sum.v = s.keys.data();
    sum.rows = heads;
    sum.count = count;
    sum.n = stride;
    sum.out = s.out.data();
    simd::add_weighted(sum);
  }
  float* out = call.out.row<float>(row) + first_head * d;
  for (int h = 0; h < heads; ++h) finish_head(call, s, h, stride, out + h * d, call.sink[first_head + h]);
}

}  // namespace

void cpu_attention(CpuContext& context, const AttentionCall& call) {
  const std::int64_t head_blocks = (call.heads + head_block - 1) / head_block;
  const auto units = static_cast<std::int64_t>(call.rows.size()) * head_blocks;
  std::vector<Scratch> scratch(static_cast<std::size_t>(context.pool.threads()), make_scratch(call.head_dim));
  context.pool.for_each_unit(units, 1, [&](int worker, std::int64_t unit) {
    attend(call, context.order, scratch[static_cast<std::size_t>(worker)], unit / head_blocks,
           static_cast<int>(unit % head_blocks) * head_block);
  });
}

}  // namespace tandem::gpu
