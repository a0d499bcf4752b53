// What each line is made of, as one clause beside its figure.
#include "gpu/plan/plan_lines.hpp"

#include <fmt/format.h>

#include "gpu/checkpoint/loader.hpp"
#include "gpu/plan/allowances.hpp"

namespace tandem::gpu {
namespace {

bool on_device(const PlanRequest& request) noexcept {
  return request.backend == "cuda";
}

// Page tables of all lanes: one number for every page of the longest sequence in each source's pool.
std::uint64_t page_table_bytes(const CacheLayout& layout) {
  const std::int64_t units = (layout.limits.max_positions + layout.page_tokens - 1) / layout.page_tokens;
  const std::int64_t pages = units * (layout.page_tokens / page_entries);
  const auto tables = static_cast<std::int64_t>(layout.sources.size()) * layout.limits.lanes_max;
  return static_cast<std::uint64_t>(tables * pages) * sizeof(std::int32_t);
}

// Token ids and kinds of every open sequence.
std::uint64_t token_list_bytes(const CacheLayout& layout) {
  const std::int64_t tokens =
      std::min(layout.limits.max_positions * layout.limits.lanes_max, layout.units * layout.page_tokens);
  return static_cast<std::uint64_t>(tokens) * (sizeof(std::int32_t) + 1);
}

}  // namespace

std::vector<PlanLine> weight_lines(const MeasuredWeights& measured) {
  std::vector<PlanLine> lines;
  for (std::size_t i = 0; i < weight_groups; ++i) {
    const auto group = static_cast<WeightGroup>(i);
    const GroupBytes& bytes = measured.of(group);
    if (bytes.all() == 0) continue;
    std::string reason = "codes or values";
    if (bytes.scales > 0) reason = fmt::format("codes {}, scales {} bytes", bytes.codes, bytes.scales);
    if (group == WeightGroup::vision) reason = "as stored in the files";
    lines.push_back({PlanPart::weights, to_string(group), bytes.all(), std::move(reason)});
  }
  return lines;
}

void add_cache_lines(std::vector<PlanLine>& lines, const ModelConfig& config, const CacheLayout& layout,
                     const PlanRequest& request) {
  const std::int64_t tokens = layout.units * layout.page_tokens;
  std::uint64_t pools = 0;
  for (const SourceLayout& source : layout.sources) pools += layout.pool_bytes(source);
  lines.push_back(
      {PlanPart::caches, "pages", pools, fmt::format("{} positions in pages of {}", tokens, layout.page_tokens)});
  const auto lanes = static_cast<std::uint64_t>(layout.limits.lanes_max);
  lines.push_back({PlanPart::caches, "lanes", lanes * layout.lane_bytes(),
                   fmt::format("{} x window rings of {} slots and open groups", lanes, layout.window_slots)});
  // Host and device each have them, unless they are the same memory to the backend.
  const std::uint64_t copies = on_device(request) ? 2 : 1;
  lines.push_back({PlanPart::caches, "page_tables", copies * page_table_bytes(layout), "a number for every page"});
  const auto positions = static_cast<std::uint64_t>(layout.limits.max_positions + config.dspark.block_size);
  const auto pairs = static_cast<std::uint64_t>(config.rope_dim / 2);
  lines.push_back({PlanPart::caches, "rotation_tables", 2 * positions * pairs * 2 * sizeof(float),
                   "sine and cosine of every position, with and without YaRN"});
}

void add_step_lines(std::vector<PlanLine>& lines, const RehearsedStep& step, const PlanRequest& request) {
  lines.push_back({PlanPart::step, "workspace", step.workspace_bytes,
                   fmt::format("tensors of a step of {} rows at position {}", step.rows, request.step.context)});
  lines.push_back({PlanPart::step, "scratch", step.scratch_bytes, "inside the largest operation: indexer, experts"});
  if (!on_device(request)) return;
  lines.push_back({PlanPart::step, "host_copies", step.exchange_bytes + step.logits_bytes,
                   "what ranks exchange and the logits that are sampled"});
}

void add_engram_lines(std::vector<PlanLine>& lines, const ModelConfig& config, const RehearsedStep& step,
                      const PlanRequest& request) {
  const EngramConfig& engram = config.engram;
  if (engram.layers.empty()) return;
  const std::uint64_t tables = engram.layers.size();
  const std::uint64_t row_bytes = static_cast<std::uint64_t>(engram.head_dim + engram.head_dim / 32);
  const std::uint64_t rows = static_cast<std::uint64_t>(step.rows) * static_cast<std::uint64_t>(engram.columns());
  lines.push_back({PlanPart::engram, "rows", engram_steps_held * tables * rows * (row_bytes + sizeof(std::int64_t)),
                   fmt::format("{} rows of {} bytes a table and step, and their numbers", rows, row_bytes)});
  if (on_device(request)) {
    const auto width = static_cast<std::uint64_t>(engram.row_width());
    lines.push_back({PlanPart::engram, "values", static_cast<std::uint64_t>(step.rows) * width * sizeof(float),
                     "rows dequantised on the host before they are sent"});
  }
  lines.push_back({PlanPart::engram, "reads", static_cast<std::uint64_t>(request.engram.io_depth) * engram_read_bytes,
                   fmt::format("{} reads in flight", request.engram.io_depth)});
  if (request.engram.cache_gib > 0) {
    lines.push_back({PlanPart::engram, "row_cache",
                     static_cast<std::uint64_t>(request.engram.cache_gib * static_cast<double>(1U << 30)),
                     "engram.cache_gib"});
  }
  lines.push_back({PlanPart::engram, "token_map", static_cast<std::uint64_t>(config.vocab_size) * sizeof(std::int32_t),
                   "class of every token"});
}

void add_process_lines(std::vector<PlanLine>& lines, const CacheLayout& layout, const PlanRequest& request) {
  const auto add = [&](const char* name, std::uint64_t bytes, const char* reason) {
    lines.push_back({PlanPart::process, name, bytes, reason});
  };
  add("host_heap", host_heap_bytes, "program, actors, tokenizer, connections");
  add("request_bodies", request_bodies_bytes, "requests in flight at the head");
  add("token_lists", token_list_bytes(layout), "ids and kinds of all positions");
  add("loading", headers_bytes + LoadRequest{}.piece_bytes, "headers and the buffer that weights stream through");
  if (request.ranks > 1) add("communication", communication_bytes, "socket and collective buffers");
  if (!on_device(request)) return;
  add("device_context", device_context_bytes, "driver, kernels' code and local memory");
  add("device_graphs", device_graphs_bytes, "captured steps");
  add("device_staging", device_staging_bytes, "lists that the host sends to kernels");
  add("device_blocks", device_block_slack_bytes, "unused ends of blocks");
}

}  // namespace tandem::gpu
