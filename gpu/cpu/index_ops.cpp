// Rows that share a key cache are scored together, so that a block of keys is decoded once for all of them. Scores live
// in a buffer of bounded size; rows with up to `topk` visible entries take everything and are not scored.
#include "gpu/cpu/index_ops.hpp"

#include <algorithm>
#include <array>
#include <limits>

#include "gpu/cpu/row_ops.hpp"
#include "gpu/cpu/simd/kernels.hpp"
#include "gpu/cpu/top_k.hpp"

namespace tandem::gpu {
namespace {

using simd::index_block;

constexpr std::int64_t score_budget = 1 << 22;  // floats of scores held at a time, unless one row needs more
constexpr float nothing = -std::numeric_limits<float>::infinity();

struct Keys {
  std::vector<float> plain;       // [index_block, dim]
  std::vector<float> transposed;  // [dim, index_block]
};

// Rows of one cache whose scores are in memory together.
struct Group {
  std::vector<std::int64_t> rows;     // numbers in call.rows
  std::vector<std::int64_t> offsets;  // where each row's scores begin
  std::int64_t visible = 0;           // the longest row
  std::int64_t floats = 0;
};

bool has_bit(const std::uint64_t* mask, std::int64_t bit) {
  return (mask[bit / 64] >> (bit % 64) & 1U) != 0;
}

bool is_candidate(const IndexCall& call, const IndexRow& row, std::int64_t entry) {
  return row.candidate_mask == nullptr || has_bit(row.candidate_mask, entry / call.block_size);
}

bool same_cache(const IndexRow& a, const IndexRow& b) {
  return a.keys.pool == b.keys.pool && a.keys.pages == b.keys.pages;
}

void store_selection(const IndexCall& call, const IndexRow& row, std::span<const std::int32_t> chosen) {
  std::copy(chosen.begin(), chosen.end(), row.selected);
  std::fill(row.selected + chosen.size(), row.selected + call.topk, -1);
  if (row.selected_count != nullptr) *row.selected_count = static_cast<std::int32_t>(chosen.size());
}

void store_mask(const IndexCall& call, const IndexRow& row, std::span<const std::int32_t> blocks) {
  const std::int64_t count = (row.visible + call.block_size - 1) / call.block_size;
  std::fill_n(row.publish_mask, (count + 63) / 64, std::uint64_t{0});
  for (const std::int32_t block : blocks) row.publish_mask[block / 64] |= std::uint64_t{1} << (block % 64);
}

// A row with no more entries than it may take: all of its candidates, every block published.
void take_everything(const IndexCall& call, const IndexRow& row) {
  std::vector<std::int32_t> chosen;
  for (std::int32_t j = 0; j < row.visible; ++j) {
    if (is_candidate(call, row, j)) chosen.push_back(j);
  }
  store_selection(call, row, chosen);
  if (row.publish_mask == nullptr) return;
  std::vector<std::int32_t> blocks;
  for (std::int32_t j = 0; j < row.visible; j += call.block_size) blocks.push_back(j / call.block_size);
  store_mask(call, row, blocks);
}

// Publishes the blocks with the best maxima; the block of the newest entry is always among them.
void publish_blocks(const IndexCall& call, const IndexRow& row, std::span<const float> scores, TopK& top) {
  std::vector<float> best(static_cast<std::size_t>((row.visible + call.block_size - 1) / call.block_size), nothing);
  for (std::int32_t j = 0; j < row.visible; ++j) {
    float& block = best[static_cast<std::size_t>(j / call.block_size)];
    block = std::max(block, scores[static_cast<std::size_t>(j)]);
  }
  best.back() = std::numeric_limits<float>::infinity();
  store_mask(call, row, top.select(best, call.candidate_blocks));
}

bool wants_block(const IndexCall& call, const IndexRow& row, std::int64_t first) {
  if (first >= row.visible) return false;
  if (row.candidate_mask == nullptr) return true;
  const std::int64_t last = std::min<std::int64_t>(first + index_block, row.visible) - 1;
  for (std::int64_t b = first / call.block_size; b <= last / call.block_size; ++b) {
    if (has_bit(row.candidate_mask, b)) return true;
  }
  return false;
}

void load_keys(const IndexCall& call, const PagedRecords& cache, std::int64_t first, std::int64_t count, Keys& keys) {
  for (std::int64_t t = 0; t < count; ++t) {
    decode_record(cache.format, cache.at(first + t), call.head_dim, keys.plain.data() + t * call.head_dim);
  }
  simd::transpose_keys(keys.plain.data(), call.head_dim, keys.transposed.data());
}

// Scores keys [first, first + 64) for every row of the group that sees any of them.
void score_block(const IndexCall& call, const Group& group, std::int64_t first, Keys& keys, float* scores) {
  bool loaded = false;
  for (std::size_t i = 0; i < group.rows.size(); ++i) {
    const std::int64_t t = group.rows[i];
    const IndexRow& row = call.rows[static_cast<std::size_t>(t)];
    if (first >= row.visible) continue;
    const std::int64_t count = std::min<std::int64_t>(index_block, row.visible - first);
    float* out = scores + group.offsets[i] + first;
    if (!wants_block(call, row, first)) {
      std::fill_n(out, count, nothing);
      continue;
    }
    if (!loaded) load_keys(call, row.keys, first, std::min<std::int64_t>(index_block, group.visible - first), keys);
    loaded = true;
    std::array<float, index_block> block;
    simd::score_index_block({call.iq.row<float>(t), call.weights.row<float>(t), keys.transposed.data(), call.heads,
                             call.head_dim, block.data()});
    for (std::int64_t j = 0; j < count; ++j) {
      out[j] = is_candidate(call, row, first + j) ? block[static_cast<std::size_t>(j)] : nothing;
    }
  }
}

void select_group(CpuContext& context, const IndexCall& call, const Group& group) {
  std::vector<float> scores(static_cast<std::size_t>(group.floats));
  const auto dim = static_cast<std::size_t>(call.head_dim) * index_block;
  std::vector<Keys> keys(static_cast<std::size_t>(context.pool.threads()),
                         Keys{std::vector<float>(dim), std::vector<float>(dim)});
  std::vector<TopK> tops(keys.size());
  context.pool.for_each_unit((group.visible + index_block - 1) / index_block, 1, [&](int worker, std::int64_t block) {
    score_block(call, group, block * index_block, keys[static_cast<std::size_t>(worker)], scores.data());
  });
  context.pool.for_each_unit(static_cast<std::int64_t>(group.rows.size()), 1, [&](int worker, std::int64_t i) {
    const auto at = static_cast<std::size_t>(i);
    const IndexRow& row = call.rows[static_cast<std::size_t>(group.rows[at])];
    const std::span<const float> own(scores.data() + group.offsets[at], static_cast<std::size_t>(row.visible));
    TopK& top = tops[static_cast<std::size_t>(worker)];
    store_selection(call, row, top.select(own, call.topk));
    if (row.publish_mask != nullptr) publish_blocks(call, row, own, top);
  });
}

}  // namespace

void cpu_index_select(CpuContext& context, const IndexCall& call) {
  Group group;
  const auto flush = [&] {
    if (!group.rows.empty()) select_group(context, call, group);
    group = {};
  };
  for (std::size_t t = 0; t < call.rows.size(); ++t) {
    const IndexRow& row = call.rows[t];
    if (row.visible <= call.topk) {
      take_everything(call, row);
      continue;
    }
    const bool fits = group.rows.empty() || (same_cache(call.rows[static_cast<std::size_t>(group.rows.front())], row) &&
                                             group.floats + row.visible <= score_budget);
    if (!fits) flush();
    group.rows.push_back(static_cast<std::int64_t>(t));
    group.offsets.push_back(group.floats);
    group.floats += row.visible;
    group.visible = std::max<std::int64_t>(group.visible, row.visible);
  }
  flush();
}

}  // namespace tandem::gpu
