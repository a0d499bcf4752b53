// Plain loops over host copies of queries, keys and masks.
#include "gpu/model/index_views.hpp"

#include <algorithm>
#include <limits>

#include "gpu/model/probe_views.hpp"

namespace tandem::gpu {
namespace {

constexpr float unseen = -std::numeric_limits<float>::infinity();

// Columns of a tensor with one for every entry of the prompt.
std::int64_t shown_entries(const StepContext& step, int ratio) {
  const auto& positions = step.rows.positions();
  const std::int64_t newest = *std::max_element(positions.begin(), positions.end());
  return visible_entries(std::max(newest, step.probe->prompt_positions() - 1), ratio);
}

bool has_block(const std::uint64_t* mask, std::int64_t words, std::int64_t block) {
  return block / 64 < words && (mask[block / 64] >> (block % 64) & 1U) != 0;
}

// The values of the first `count` entries, [count, n]; empty if they cannot be read.
std::vector<float> read_entries(Memory& memory, const PagedRecords& keys, std::int64_t count) {
  const auto width = static_cast<std::size_t>(keys.n);
  std::vector<float> values(static_cast<std::size_t>(count) * width);
  std::vector<std::byte> record(record_bytes(keys.format, keys.n));
  for (std::int64_t entry = 0; entry < count; ++entry) {
    if (!memory.download(keys.at(entry), record)) return {};
    read_record(keys.format, record.data(), std::span(values).subspan(static_cast<std::size_t>(entry) * width, width));
  }
  return values;
}

double positive_dot(const float* a, const float* b, int n) noexcept {
  double sum = 0;
  for (int i = 0; i < n; ++i) sum += static_cast<double>(a[i]) * b[i];
  return std::max(sum, 0.0);
}

// Queries [T, heads*dim] and head weights [T, heads] of a call on the host.
struct Queries {
  Tensor queries, weights;
};

// Scores of row t against its first scores.size() keys.
void score_row(const IndexCall& call, const Queries& host, std::int64_t t, std::span<const float> keys,
               std::span<float> scores) {
  for (std::size_t entry = 0; entry < scores.size(); ++entry) {
    const float* key = keys.data() + entry * static_cast<std::size_t>(call.head_dim);
    double score = 0;
    for (int h = 0; h < call.heads; ++h)
      score += host.weights.row<float>(t)[h] *
               positive_dot(host.queries.row<float>(t) + h * call.head_dim, key, call.head_dim);
    scores[entry] = static_cast<float>(score);
  }
}

// Scores of every row [T, entries]; false if something cannot be read.
bool score_rows(const StepContext& step, const IndexCall& call, std::int64_t entries, std::vector<float>& scores) {
  Buffer copies[2];
  Memory& memory = step.ops().memory();
  const auto queries = on_host(memory, call.iq, copies[0]), weights = on_host(memory, call.weights, copies[1]);
  if (!queries || !weights) return false;
  for (const Segment& segment : step.rows.segments()) {
    const IndexRow& newest = call.rows[static_cast<std::size_t>(segment.first_row + segment.count - 1)];
    const std::vector<float> keys = read_entries(memory, newest.keys, newest.visible);
    if (keys.empty() && newest.visible > 0) return false;
    for (std::int64_t t = segment.first_row; t < segment.first_row + segment.count; ++t) {
      const auto visible = static_cast<std::size_t>(call.rows[static_cast<std::size_t>(t)].visible);
      score_row(call, {*queries, *weights}, t, keys,
                std::span(scores).subspan(static_cast<std::size_t>(t * entries), visible));
    }
  }
  return true;
}

// Host copy of a row's candidate mask; empty if all entries are candidates.
std::vector<std::uint64_t> candidate_mask(Memory& memory, const IndexCall& call, const IndexRow& row) {
  if (row.candidate_mask == nullptr || row.visible == 0) return {};
  const std::int64_t blocks = (row.visible + call.block_size - 1) / call.block_size;
  std::vector<std::uint64_t> mask(static_cast<std::size_t>((blocks + 63) / 64));
  if (!memory.download(row.candidate_mask, std::as_writable_bytes(std::span(mask)))) return {};
  return mask;
}

float row_margin(Memory& memory, const IndexCall& call, const IndexRow& row, std::span<const float> scores) {
  std::vector<float> usable(scores.begin(), scores.begin() + row.visible);
  const std::vector<std::uint64_t> mask = candidate_mask(memory, call, row);
  for (std::size_t entry = 0; !mask.empty() && entry < usable.size(); ++entry) {
    const auto block = static_cast<std::int64_t>(entry) / call.block_size;
    if (!has_block(mask.data(), static_cast<std::int64_t>(mask.size()), block)) usable[entry] = unseen;
  }
  return selection_margin(usable, static_cast<std::size_t>(call.topk));
}

void show_candidates(const StepContext& step, std::int64_t entries, const Tensor& candidates) {
  std::vector<std::uint8_t> mask;
  mask.reserve(static_cast<std::size_t>(candidates.rows * entries));
  for (std::int64_t r = 0; r < candidates.rows; ++r) {
    const auto* words = candidates.row<std::uint64_t>(r);
    for (std::int64_t entry = 0; entry < entries; ++entry) {
      const std::int64_t block = entry / step.config().candidate_block_size;
      mask.push_back(has_block(words, candidates.cols, block) ? 1 : 0);
    }
  }
  const Tensor shown{mask.data(), DType::u8, candidates.rows, entries, entries};
  step.probe->record(step.scope + "cand", shown, {candidates.rows, entries});
}

}  // namespace

std::int32_t visible_entries(std::int64_t position, int ratio) noexcept {
  return static_cast<std::int32_t>((position + 1) / ratio);
}

void show_index_scores(const StepContext& step, const LayerRole& role, const IndexCall& call) {
  if (step.probe == nullptr || call.rows.empty()) return;
  const auto rows = static_cast<std::int64_t>(call.rows.size());
  const std::int64_t entries = shown_entries(step, role.ratio);
  std::vector<float> scores(static_cast<std::size_t>(rows * entries), unseen);
  if (!score_rows(step, call, entries, scores)) return;
  std::vector<float> margins;
  for (std::int64_t t = 0; t < rows; ++t) {
    const std::span<const float> own(scores.data() + t * entries, static_cast<std::size_t>(entries));
    margins.push_back(row_margin(step.ops().memory(), call, call.rows[static_cast<std::size_t>(t)], own));
  }
  step.probe->record(step.scope + "index_score", Tensor::f32(scores.data(), rows, entries), {rows, entries});
  step.probe->record(step.scope + "sel_margin", Tensor::f32(margins.data(), rows, 1), {rows});
}

void show_selection(const StepContext& step, const LayerRole& role, const Selection& selection) {
  if (step.probe == nullptr || step.row_count() == 0) return;
  Buffer selected_copy, candidates_copy;
  const auto selected = on_host(step.ops().memory(), selection.selected, selected_copy);
  const auto candidates = on_host(step.ops().memory(), selection.candidates, candidates_copy);
  if (!selected || !candidates) return;
  const std::int64_t topk = selected->cols;
  std::vector<std::int32_t> sorted(static_cast<std::size_t>(selected->rows * topk));
  for (std::int64_t r = 0; r < selected->rows; ++r) {
    const auto* chosen = selected->row<std::int32_t>(r);
    std::int32_t* out = sorted.data() + r * topk;
    std::copy(chosen, chosen + topk, out);
    std::sort(out, std::find(out, out + topk, -1));
  }
  step.probe->record(step.scope + "sel", Tensor::i32(sorted.data(), selected->rows, topk), {selected->rows, topk});
  if (role.publishes_candidates) show_candidates(step, shown_entries(step, role.ratio), *candidates);
}

}  // namespace tandem::gpu
