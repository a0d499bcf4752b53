// Bounds in floats, one function an operation. Names in comments are the buffers that are meant.
#include "gpu/plan/scratch_meter.hpp"

#include <numeric>

#include "gpu/cuda/exl3/layout.hpp"
#include "gpu/cuda/expert_scratch.hpp"
#include "gpu/exl3/form.hpp"

namespace tandem::gpu {
namespace {

// Of the device backend.
constexpr std::int64_t device_score_floats = std::int64_t{16} << 20;  // score_budget of the indexer
constexpr std::int64_t device_split_heads = 1024;                     // rows x heads of attention in many blocks
constexpr std::int64_t device_split_keys = 768;                       // keys of such a row, at most
constexpr std::int64_t device_slices = 8;                             // scales of a rotated row

// Of the CPU backend.
constexpr std::int64_t host_score_floats = std::int64_t{1} << 22;  // score_budget of the indexer
constexpr std::int64_t host_wave_floats = std::int64_t{16} << 20;  // transformed inputs of one wave of experts
constexpr std::int64_t host_panel_columns = 16;                    // panel_cols

std::int64_t longest_row(const IndexCall& call) {
  std::int64_t most = 0;
  for (const IndexRow& row : call.rows) most = std::max<std::int64_t>(most, row.visible);
  return most;
}

std::int64_t entries_of_rows(const IndexCall& call) {
  std::int64_t sum = 0;
  for (const IndexRow& row : call.rows) sum += row.visible;
  return sum;
}

}  // namespace

std::int64_t ScratchMeter::floats_of(const Tensor& x, const Linear& weight, LinearMode mode) const {
  if (mode.q8 && weight.is_low_precision()) return x.rows * x.cols;
  if (weight.format != WeightFormat::exl3) return 0;
  const std::int64_t inputs = exl3::padded_side(weight.k);
  if (!is_device_) return x.rows * inputs;
  return std::min<std::int64_t>(x.rows, cuda::exl3_linear_rows_max) * (inputs / 2 + device_slices);
}

void ScratchMeter::linear(const Tensor& x, const Linear& weight, LinearMode mode) {
  take(floats_of(x, weight, mode));
}

void ScratchMeter::linears(std::span<const LinearCall> calls) {
  std::int64_t sum = 0;
  for (const LinearCall& call : calls) {
    const std::int64_t floats = floats_of(call.x, *call.weight, call.mode);
    sum = is_device_ ? sum + floats : std::max(sum, floats);
  }
  take(sum);
}

void ScratchMeter::attention(const AttentionCall& call) {
  const std::int64_t heads = call.q.rows * call.heads;
  if (is_device_) take(std::min(heads, device_split_heads) * device_split_keys);
}

// Rows are taken in groups within the budget, a longer row alone; a publishing layer also scores blocks. Where
// candidates are listed a row has the scores of whole blocks, the blocks' numbers and how many. All fill whole lines.
void ScratchMeter::index_select(const IndexCall& call) {
  constexpr std::int64_t spare_floats = 40;  // two ends of lines, an end of a block and its number
  const std::int64_t budget = is_device_ ? device_score_floats : host_score_floats;
  const std::int64_t scores = std::max(longest_row(call), std::min(entries_of_rows(call), budget));
  const std::int64_t blocks = call.block_size > 0 ? scores / call.block_size : 0;
  take(scores + blocks + spare_floats * static_cast<std::int64_t>(call.rows.size()));
}

void ScratchMeter::moe(const MoeCall& call) {
  if (is_device_) return moe_on_device(call);
  moe_on_host(call);
}

// The shared expert runs beside the routed ones, in the other side's memory.
void ScratchMeter::moe_on_device(const MoeCall& call) {
  const cuda::ExpertScratch grown = cuda::grown_expert_scratch(cuda::expert_shape(call), call.x.rows);
  take_with_growth(grown.stream);
  beside(Ops::Side::branch, [&] { take_with_growth(grown.branch); });
}

void ScratchMeter::moe_on_host(const MoeCall& call) {
  const ExpertWeights& expert = call.weights->experts.front();
  const bool is_packed = expert.w1.format == WeightFormat::exl3;
  const std::int64_t products = call.x.rows * (call.routing.ids.cols + 1), width = call.x.cols;
  const std::int64_t panels = 2 * threads_ * products * (is_packed ? exl3::block_side : host_panel_columns);
  const std::int64_t one_expert = 2 * call.x.rows * width;
  const std::int64_t wave = is_packed ? std::max(std::min(2 * products * width, host_wave_floats), one_expert) : 0;
  take(products * expert.w1.n + panels + wave + 2 * call.x.rows * width);
}

// Each side of the stream has memory of its own; on the host they take turns.
void ScratchMeter::beside(Ops::Side side, const std::function<void()>& body) {
  if (is_device_) here_ = 1 + static_cast<std::size_t>(side);
  body();
  here_ = 0;
}

std::size_t ScratchMeter::bytes() const noexcept {
  return std::accumulate(bytes_most_.begin(), bytes_most_.end(), std::size_t{0});
}

}  // namespace tandem::gpu
