// The operations that need no arithmetic worth a backend of its own, for tensors in host memory.
#include "gpu/ops.hpp"

#include <cstring>

#include "gpu/numeric/bf16.hpp"

namespace tandem::gpu {
namespace {

void round_row(float* row, std::int64_t cols) {
  for (std::int64_t i = 0; i < cols; ++i) row[i] = round_to_bf16(row[i]);
}

}  // namespace

Memory& Ops::memory() noexcept {
  return host_memory();
}

Result<void> Ops::wait() {
  return {};
}

void Ops::linears(std::span<const LinearCall> calls) {
  for (const LinearCall& call : calls) linear(call.x, *call.weight, call.mode, call.y);
}

void Ops::mhc_input(const Tensor& streams, const Tensor& pre, const RmsNorm& norm, Tensor u, Tensor y) {
  mhc_collapse(streams, pre, norm.round, u);
  rmsnorm(u, *norm.weight, norm.eps, norm.round, y);
}

void Ops::finish_rows(std::span<const RowFinish> all) {
  for (const RowFinish& one : all) {
    const bool round = one.norm.round;
    if (one.norm.weight != nullptr) rmsnorm(one.x, *one.norm.weight, one.norm.eps, round, one.y);
    if (one.factor != 1) scale(one.y, one.factor, round);
    if (one.rope.pairs > 0) rope(one.y, one.heads, one.positions, one.rope, false, round);
    if (one.quantises_x4) quantise_x4(one.y);
    if (!one.rings.empty()) write_window(one.y, one.rings, one.positions);
    if (!one.entries.empty()) write_entries(one.y, one.caches, one.entries);
  }
}

void Ops::end_site(const SiteEnd& end) {
  sum_blocks(end.parts, end.round, end.sum);
  mhc_expand(end.streams, end.sum, end.mix, end.round);
}

void Ops::end_site(const SiteEnd& end, const SiteInput& next) {
  end_site(end);
  mhc_input(end.streams, next.pre, next.norm, next.u, next.y);
}

void Ops::rotated_attention(const AttentionCall& call, const AttentionAngles& angles) {
  rope(call.q, call.heads, angles.positions, angles.rope, false, call.bf16);
  attention(call);
  rope(call.out, call.heads, angles.positions, angles.rope, true, call.bf16);
}

bool Ops::gather(Communicator&, const Tensor&, const Tensor&) {
  return false;
}

void Ops::prepare(MoeWeights&) {}

void Ops::move_rows(std::span<const RowMove> moves, std::int64_t cols) {
  for (const RowMove& move : moves) std::memcpy(move.to, move.from, static_cast<std::size_t>(cols) * sizeof(float));
}

void Ops::clear(Tensor x) {
  if (!x.empty()) std::memset(x.data, 0, bytes_of(x).size());
}

void Ops::scale(Tensor x, float factor, bool round) {
  for (std::int64_t row = 0; row < x.rows; ++row) {
    auto* values = x.row<float>(row);
    for (std::int64_t i = 0; i < x.cols; ++i) values[i] *= factor;
    if (round) round_row(values, x.cols);
  }
}

void Ops::sum_blocks(const Tensor& parts, bool round, Tensor sum) {
  if (sum.empty()) return;
  const std::int64_t blocks = parts.rows / sum.rows;
  for (std::int64_t row = 0; row < sum.rows; ++row) {
    auto* to = sum.row<float>(row);
    std::memcpy(to, parts.row<float>(row), static_cast<std::size_t>(sum.cols) * sizeof(float));
    for (std::int64_t block = 1; block < blocks; ++block) {
      const auto* next = parts.row<float>(block * sum.rows + row);
      for (std::int64_t i = 0; i < sum.cols; ++i) to[i] += next[i];
    }
    if (round) round_row(to, sum.cols);
  }
}

Result<void> Ops::draw_tokens(const Tensor& logits, std::span<const DrawRow> rows, std::span<TokenId> tokens) {
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const auto drawn =
        sample_token({logits.row<float>(rows[i].row), static_cast<std::size_t>(logits.cols)}, rows[i].context);
    tokens[i] = drawn ? drawn->id : -1;
  }
  return {};
}

Result<void> Ops::best_of_sum(const Tensor& a, const Tensor& b, Tensor sums, std::span<BestColumn> best) {
  for (std::int64_t row = 0; row < sums.rows; ++row) {
    const auto *left = a.row<float>(row), *right = b.row<float>(row);
    auto* out = sums.row<float>(row);
    BestColumn most{left[0] + right[0], 0};
    for (std::int64_t i = 0; i < sums.cols; ++i) {
      out[i] = left[i] + right[i];
      if (out[i] > most.value) most = {out[i], static_cast<std::int32_t>(i)};
    }
    best[static_cast<std::size_t>(row)] = most;
  }
  return {};
}

}  // namespace tandem::gpu
