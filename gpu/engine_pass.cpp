// Passes at once, as one, and ahead of their time.
#include "gpu/engine_pass.hpp"

#include <algorithm>
#include <utility>

namespace tandem::gpu {
namespace {

constexpr std::int32_t rows_of_one = 64;  // most rows of a step that backends may keep as a whole

bool same_segment(const Segment& a, const Segment& b) noexcept {
  return a.sequence == b.sequence && a.first_position == b.first_position && a.first_row == b.first_row &&
         a.count == b.count;
}

bool has_images(const RowBatch& rows) noexcept {
  for (std::int32_t row = 0; row < rows.rows(); ++row) {
    if (rows.is_image(row)) return true;
  }
  return false;
}

// What is known of a pass only when its turn has come.
std::vector<std::span<const std::byte>> late_lists(const RowBatch& rows, const std::vector<Buffer>& engram_rows) {
  std::vector<std::span<const std::byte>> lists{std::as_bytes(rows.tokens())};
  for (const Buffer& table : engram_rows) lists.emplace_back(table.data.get(), table.bytes);
  return lists;
}

}  // namespace

// Ranks that meet in host memory wait inside the pass, and long steps gain nothing from being one.
bool EnginePass::is_one(const PassRows& pass) const noexcept {
  return !forward_.model().waits_for_ranks() && pass.options.upper_rows.empty() && pass.rows.rows() <= rows_of_one;
}

bool EnginePass::is_next(const PassRows& pass) const noexcept {
  if (!next_) return false;
  const PassRows& next = next_->pass;
  const auto segments = pass.rows.segments(), expected = next.rows.segments();
  return std::equal(segments.begin(), segments.end(), expected.begin(), expected.end(), same_segment) &&
         pass.wanted == next.wanted && !has_images(pass.rows) && is_one(pass) &&
         pass.options.taps == next.options.taps && pass.options.probe == next.options.probe;
}

Result<void> EnginePass::compute(const PassRows& pass, PassResult& result) {
  auto passed = forward_.run(pass.rows, pass.options);
  if (!passed) return passed.error();
  result.rows = std::move(*passed);
  result.logits = {};
  if (pass.wanted.empty()) return {};
  const auto logits = forward_.logits(result.rows, pass.wanted);
  if (!logits) return logits.error();
  result.logits = *logits;
  return {};
}

Result<bool> EnginePass::start(const PassRows& pass) {
  const Model& model = forward_.model();
  if (model.engram) {
    if (auto ok = model.engram->read(pass.rows, next_->engram_rows); !ok) return ok.error();
  }
  if (!model.ops->run_prepared(late_lists(pass.rows, next_->engram_rows))) return false;
  forward_.workspace().return_to(next_->end);
  return true;
}

Result<PassResult> EnginePass::run(const PassRows& pass) {
  PassResult result;
  if (is_next(pass)) {
    const auto started = start(pass);
    if (!started) return started.error();
    if (*started) result = std::move(next_->result);
    forget();
    if (*started) return result;
  }
  forget();
  const auto body = [&] { return compute(pass, result); };
  const auto done = is_one(pass) ? forward_.model().ops->run_as_one(body) : body();
  if (!done) return done.error();
  return result;
}

void EnginePass::prepare(std::span<const NextRows> next_rows, bool taps) {
  forget();
  const Model& model = forward_.model();
  Workspace& workspace = forward_.workspace();
  // Merging would free what still lies there.
  if (next_rows.empty() || model.ops->memory().is_host() || !workspace.is_merged()) return;
  auto next = std::make_unique<Prepared>();
  PassRows& pass = next->pass;
  pass.options.taps = taps;
  for (const NextRows& each : next_rows) {
    const std::vector<std::int32_t> unknown(static_cast<std::size_t>(each.count));
    pass.rows.add_block(*each.sequence, each.sequence->length(), unknown);
  }
  if (!is_one(pass)) return;
  for (std::int32_t row = 0; row < pass.rows.rows(); ++row) pass.wanted.push_back(row);
  if (model.engram) {
    next->engram_rows = model.engram->make_room(pass.rows.rows());
    pass.options.engram_rows = &next->engram_rows;
  }
  const Workspace::Mark present = workspace.mark();
  const auto body = [&] { return compute(pass, next->result); };
  const bool is_ready = model.ops->prepare_as_one(body, late_lists(pass.rows, next->engram_rows));
  next->end = workspace.mark();
  workspace.return_to(present);
  if (is_ready) next_ = std::move(next);
}

}  // namespace tandem::gpu
