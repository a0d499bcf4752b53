// Attention and the indexer: host lists of rows become device lists.
//
// Scores of the indexer live in scratch memory of bounded size: rows are taken in groups that fit, which changes no
// bit.
#include <algorithm>
#include <bit>
#include <cstdint>
#include <limits>
#include <vector>

#include "gpu/cuda/attention_kernels.hpp"
#include "gpu/cuda/calls.hpp"
#include "gpu/cuda/exl3/exl3.hpp"
#include "gpu/cuda/index_kernels.hpp"
#include "gpu/cuda/row_kernels.hpp"

namespace tandem::gpu::cuda {
namespace {

constexpr std::int64_t score_budget = std::int64_t{16} << 20;  // floats of scores at a time, unless one row needs more

KeySource key_source(const AttentionRow& row) {
  KeySource source;
  source.ring = row.window.base;
  source.ring_slots = std::max<std::int64_t>(row.window.slots, 1);
  source.window_first = row.window_first;
  source.window_count = std::max<std::int64_t>(row.window_last - row.window_first + 1, 0);
  source.pool = row.compressed.pool;
  source.pages = row.compressed.pages_in_memory;
  source.selected = row.selected;
  source.selected_most = row.selected == nullptr ? 0 : row.selected_count;
  return source;
}

// An upper bound of the keys of any row, rounded up so that it stays the same while windows fill.
std::int64_t keys_most(const std::vector<KeySource>& rows) {
  constexpr std::int64_t step = 128;
  std::int64_t most = 1;
  for (const KeySource& row : rows) most = std::max(most, row.window_count + row.selected_most);
  return (most + step - 1) / step * step;
}

// Entries that a launch is made for: rounded up to an eighth of the power of two below and at least a thousand, so that
// the launches of growing sequences change rarely: each change makes two steps several milliseconds longer, the first
// that meets it and the one that captures a graph. Blocks behind a row's last entry end at once.
std::int64_t launch_extent(std::int64_t visible) {
  constexpr std::int64_t least = 1024;
  if (visible == 0) return 0;
  const auto step = std::max(least, static_cast<std::int64_t>(std::bit_floor(static_cast<std::uint64_t>(visible))) / 8);
  return (visible + step - 1) / step * step;
}

// What all groups of rows of a call have in common.
IndexWork index_work(const IndexCall& call) {
  const auto narrows = [](const IndexRow& row) { return row.candidate_mask != nullptr; };
  const auto publishes = [](const IndexRow& row) { return row.publish_mask != nullptr; };
  const bool has_published = std::any_of(call.rows.begin(), call.rows.end(), publishes);
  IndexWork work;
  work.iq = call.iq;
  work.weights = call.weights;
  work.heads = call.heads;
  work.head_dim = call.head_dim;
  work.topk = call.topk;
  work.narrows = std::all_of(call.rows.begin(), call.rows.end(), narrows);
  work.block_size = has_published || std::any_of(call.rows.begin(), call.rows.end(), narrows) ? call.block_size : 0;
  work.candidate_blocks = call.candidate_blocks;
  work.format = call.rows.front().keys.format;
  // A row that takes all has published every block.
  if (may_list_candidates(work, has_published)) {
    work.listed_most = std::max(call.candidate_blocks, (call.topk + call.block_size - 1) / call.block_size);
  }
  return work;
}

std::int64_t blocks_of(std::int64_t entries, int block_size) {
  return (entries + block_size - 1) / block_size;
}

// Candidate blocks of a row that are listed, at most.
std::int64_t listed_blocks(const IndexWork& work, const IndexRow& row) {
  return std::min<std::int64_t>(blocks_of(row.visible, work.block_size), work.listed_most);
}

// What a row has in scratch memory, in floats: scores, and behind them the numbers of listed blocks and how many they
// are, or the scores of the blocks that it publishes. Both begin on whole lines.
struct RowFloats {
  std::int64_t scores = 0, behind = 0;
};

RowFloats floats_of(const IndexWork& work, const IndexRow& row) {
  constexpr std::int64_t line = 16;
  const auto whole_lines = [](std::int64_t floats) { return (floats + line - 1) / line * line; };
  if (work.listed_most > 0) {
    const std::int64_t blocks = listed_blocks(work, row);
    return {whole_lines(blocks * work.block_size), whole_lines(blocks + 1)};
  }
  const std::int64_t published = row.publish_mask != nullptr ? row.visible / work.block_size + 1 : 0;
  return {whole_lines(row.visible), whole_lines(published)};
}

// Rows [first, last) whose scores fit the budget together.
std::size_t group_end(const IndexCall& call, const IndexWork& work, std::size_t first) {
  std::int64_t floats = 0;
  std::size_t last = first;
  while (last < call.rows.size()) {
    floats += floats_of(work, call.rows[last]).scores;
    if (last > first && floats > score_budget) break;
    ++last;
  }
  return last;
}

// The row with its lists from `memory` on.
IndexSource index_source(const IndexCall& call, const IndexWork& work, std::size_t number, float* memory) {
  const IndexRow& row = call.rows[number];
  float* behind = memory + floats_of(work, row).scores;
  IndexSource source;
  source.pool = row.keys.pool;
  source.pages = row.keys.pages_in_memory;
  source.row = static_cast<std::int32_t>(number);
  source.visible = row.visible;
  source.takes_all = row.visible <= call.topk;
  source.candidates = row.candidate_mask;
  source.published = row.publish_mask;
  source.selected = row.selected;
  source.selected_count = row.selected_count;
  source.scores = memory;
  source.block_scores = behind;
  if (work.listed_most > 0) {
    source.listed_count = reinterpret_cast<std::int32_t*>(behind);
    source.listed = source.listed_count + 1;
  }
  return source;
}

// The rows [first, last) of the call.
void select_group(CudaContext& context, const IndexCall& call, IndexWork work, std::size_t first, std::size_t last) {
  const Workspace::Scope scope(context.scratch());
  std::int64_t floats = 0;
  for (std::size_t number = first; number < last; ++number) {
    const RowFloats own = floats_of(work, call.rows[number]);
    floats += own.scores + own.behind;
  }
  auto* memory = context.scratch().f32(1, floats).row<float>(0);
  std::vector<IndexSource> rows;
  bool has_published = false;
  for (std::size_t number = first; number < last; ++number) {
    rows.push_back(index_source(call, work, number, memory));
    const RowFloats own = floats_of(work, call.rows[number]);
    memory += own.scores + own.behind;
    work.visible_most = std::max<std::int64_t>(work.visible_most, rows.back().visible);
    has_published = has_published || rows.back().published != nullptr;
  }
  work.rows = context.staging.send(std::span<const IndexSource>(rows));
  work.row_count = static_cast<std::int64_t>(rows.size());
  work.visible_most = launch_extent(work.visible_most);
  if (work.listed_most > 0) {
    const std::int64_t blocks = blocks_of(work.visible_most, work.block_size);
    work.listed_most = static_cast<int>(std::min<std::int64_t>(work.listed_most, blocks));
  }
  if (work.visible_most > 0) context.run("index score", score_entries, work);
  context.run("index select", select_entries, work);
  if (has_published && work.visible_most > 0) context.run("index publish", publish_blocks, work);
}

// Products of a few rows let the next kernel start when all before them have ended (exl3/product.cuh).
bool begins_early(const AttentionCall& call) {
  return call.behind != nullptr && call.behind->format == WeightFormat::exl3 && call.q.rows <= exl3_patient_rows_max;
}

// By itself, for attention that does not do it.
void rotate_rows(CudaContext& context, const Tensor& x, const AttendCall& work, const RowAngles& turns, bool inverse) {
  if (turns.pairs == 0) return;
  const RotationCall call{x, work.heads, turns.positions, turns.cos, turns.sin, turns.pairs, inverse, work.round};
  context.run("rope", rotate, call);
}

}  // namespace

void attention(CudaContext& context, const AttentionCall& call, const AttentionAngles* angles) {
  if (call.rows.empty()) return;
  std::vector<KeySource> rows;
  rows.reserve(call.rows.size());
  for (const AttentionRow& row : call.rows) rows.push_back(key_source(row));
  AttendCall work;
  work.q = call.q;
  work.rows = context.staging.send(std::span<const KeySource>(rows));
  work.sink = call.sink;
  work.heads = call.heads;
  work.head_dim = call.head_dim;
  work.window_format = call.rows.front().window.format;
  const bool has_entries = call.rows.front().compressed.pool != nullptr;
  work.entry_format = has_entries ? call.rows.front().compressed.format : work.window_format;
  work.round = call.bf16;
  work.out = call.out;
  work.keys_most = keys_most(rows);
  work.scores = {};
  work.angles = {};
  work.begins_early = begins_early(call);
  RowAngles turns;
  if (angles != nullptr) {
    turns = {context.staging.send(angles->positions), angles->rope.cos, angles->rope.sin, angles->rope.pairs};
  }
  if (!uses_matrices(work)) {
    rotate_rows(context, call.q, work, turns, false);
    context.run("attention", attend, work);
    return rotate_rows(context, call.out, work, turns, true);
  }
  work.angles = turns;
  if (!is_split(work)) return context.run("attention", attend_matrix, work);
  const Workspace::Scope scope(context.scratch());
  work.scores = context.scratch().f32(call.q.rows * call.heads, work.keys_most);
  context.run("attention", attend_split, work);
}

void index_select(CudaContext& context, const IndexCall& call) {
  if (call.rows.empty()) return;
  const IndexWork work = index_work(call);
  for (std::size_t first = 0; first < call.rows.size();) {
    const std::size_t last = group_end(call, work, first);
    select_group(context, call, work, first, last);
    first = last;
  }
}

}  // namespace tandem::gpu::cuda
