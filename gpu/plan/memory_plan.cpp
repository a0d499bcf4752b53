// One PlanMaker measures the headers once; the size of the rest is then a function of the context length alone, and the
// largest length that fits is found by bisection.
#include "gpu/plan/memory_plan.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "gpu/plan/plan_lines.hpp"

namespace tandem::gpu {
namespace {

// The engine's own limit for pools that nobody asked for.
constexpr std::int64_t engine_pool_bytes_max = std::int64_t{4} << 30;
constexpr std::int64_t context_min = 2;  // a prompt token and one of the answer

Error bad_request(const char* what, std::string found, std::string expected) {
  return {ErrorCode::invalid_argument, what, std::move(found), std::move(expected)};
}

std::int64_t whole_pages(std::int64_t value, std::int64_t unit) {
  return (value + unit - 1) / unit * unit;
}

std::uint64_t pools_of(const CacheLayout& layout) {
  std::uint64_t bytes = 0;
  for (const SourceLayout& source : layout.sources) bytes += layout.pool_bytes(source);
  return bytes;
}

class PlanMaker {
 public:
  PlanMaker(const PlanRequest& request, ModelConfig config, const Numerics& numerics, MeasuredWeights measured)
      : request_(request),
        config_(std::move(config)),
        numerics_(numerics),
        weights_(weight_lines(measured)),
        rehearsal_(config_, numerics, std::move(measured.shapes), {request.backend, request.ranks, request.threads}) {}

  // Fills in everything that depends on the context length.
  Result<void> size(std::int64_t context, MemoryPlan& plan) {
    plan.request.step.context = context;
    const Result<CacheLayout> layout = make_layout(context);
    if (!layout) return layout.error();
    const Result<RehearsedStep> step = rehearsal_.run(plan.request.step);
    if (!step) return step.error();
    plan.page_tokens = layout->page_tokens;
    plan.kv_tokens = layout->units * layout->page_tokens;
    plan.kv_pool_bytes = pools_of(*layout);
    plan.step_rows = step->rows;
    plan.lines = weights_;
    add_cache_lines(plan.lines, config_, *layout, plan.request);
    add_step_lines(plan.lines, *step, plan.request);
    add_engram_lines(plan.lines, config_, *step, plan.request);
    add_process_lines(plan.lines, *layout, plan.request);
    return {};
  }

  // The longest context that pools and memory allow; 0 if there is none.
  Result<std::int64_t> largest_context(MemoryPlan plan) {
    const auto fits = [&](std::int64_t context) -> Result<bool> {
      if (auto ok = size(context, plan); !ok) return ok.error();
      return plan.bytes_left() >= 0 && context <= plan.kv_tokens;
    };
    std::int64_t good = context_min - 1, bad = config_.max_positions + 1;
    while (bad - good > 1) {
      // The model's own limit is tried first: where it fits there is nothing to search.
      const std::int64_t context = bad > config_.max_positions ? config_.max_positions : good + (bad - good) / 2;
      const Result<bool> result = fits(context);
      if (!result) return result.error();
      (*result ? good : bad) = context;
    }
    return good < context_min ? 0 : good;
  }

 private:
  Result<CacheLayout> plan_pools(std::int64_t context, std::int64_t tokens) const {
    CacheLimits limits;
    limits.max_positions = context;
    limits.kv_tokens = tokens;
    limits.lanes_max = request_.step.lanes;
    limits.chunk_rows_max = request_.step.prefill_rows;
    return plan_caches(config_, numerics_, limits);
  }

  Result<CacheLayout> make_layout(std::int64_t context) const {
    if (request_.kv_tokens > 0) return plan_pools(context, request_.kv_tokens);
    // One page more than the context, to learn what a page takes.
    const Result<CacheLayout> one = plan_pools(context, context + page_entries * 64);
    if (!one) return one;
    const std::uint64_t unit_bytes =
        std::max<std::uint64_t>(1, pools_of(*one) / static_cast<std::uint64_t>(one->units));
    if (request_.kv_bytes > 0) {
      return plan_pools(context, static_cast<std::int64_t>(request_.kv_bytes / unit_bytes) * one->page_tokens);
    }
    const std::int64_t per_lane = whole_pages(context, one->page_tokens);
    const std::int64_t affordable =
        std::max(per_lane, engine_pool_bytes_max / static_cast<std::int64_t>(unit_bytes) * one->page_tokens);
    return plan_pools(context, std::min(per_lane * request_.step.lanes, affordable));
  }

  const PlanRequest& request_;
  ModelConfig config_;
  Numerics numerics_;
  std::vector<PlanLine> weights_;
  Rehearsal rehearsal_;
};

Result<void> check_request(const PlanRequest& request, const ModelConfig& config) {
  const StepLimits& step = request.step;
  if (request.backend != "cpu" && request.backend != "cuda")
    return bad_request("backend", request.backend, "cpu or cuda");
  if (request.ranks_here < 1 || request.ranks_here > request.ranks)
    return bad_request("ranks here", std::to_string(request.ranks_here), fmt::format("1 to {}", request.ranks));
  if (step.lanes < 1) return bad_request("lanes", std::to_string(step.lanes), "at least 1");
  if (step.prefill_rows < 1) return bad_request("prefill rows", std::to_string(step.prefill_rows), "at least 1");
  if (step.step_rows < step.lanes * (step.drafts + 1))
    return bad_request("step rows", std::to_string(step.step_rows),
                       fmt::format("at least lanes x (drafts + 1) = {}", step.lanes * (step.drafts + 1)));
  if (step.context != 0 && (step.context < context_min || step.context > config.max_positions))
    return bad_request("context", std::to_string(step.context),
                       fmt::format("{} to the model's {}", context_min, config.max_positions));
  if (request.kv_tokens > 0 && request.kv_bytes > 0) return bad_request("kv", "both tokens and bytes", "one of them");
  const auto divisible = check_ranks(config, request.ranks);
  return divisible ? Result<void>{} : bad_request("ranks", std::to_string(request.ranks), divisible.error().message());
}

// The configuration as the engine has it after loading.
ModelConfig as_loaded(ModelConfig config, bool draft) {
  if (draft && config.dspark.stages > 0) return config;
  config.dspark = {};
  config.dspark.block_size = 0;
  return config;
}

std::string layout_name(const MeasuredWeights& measured) {
  if (measured.packed_matrices == 0) return "official";
  return measured.packed_matrices == measured.packed_experts ? "exl3 experts" : "exl3";
}

void describe_files(const Checkpoint& checkpoint, MemoryPlan& plan) {
  plan.tensors = checkpoint.tensors().size();
  for (const SafetensorsFile& shard : checkpoint.shards()) {
    PlanFile file{shard.path(), 0, shard.tensors().size()};
    for (const TensorEntry& entry : shard.tensors()) file.bytes = std::max(file.bytes, entry.offset + entry.bytes);
    plan.files.push_back(std::move(file));
  }
}

std::uint64_t rows_on_disk(const EngramConfig& engram) {
  const std::int64_t rows = std::accumulate(engram.rows.begin(), engram.rows.end(), std::int64_t{0});
  return static_cast<std::uint64_t>(rows * (engram.head_dim + engram.head_dim / 32));
}

}  // namespace

const char* to_string(PlanPart part) noexcept {
  static constexpr std::array<const char*, plan_parts> names{"weights", "caches", "step", "engram", "process"};
  return names[static_cast<std::size_t>(part)];
}

std::uint64_t MemoryPlan::bytes_of(PlanPart part) const noexcept {
  std::uint64_t bytes = 0;
  for (const PlanLine& line : lines) bytes += line.part == part ? line.bytes : 0;
  return bytes;
}

std::uint64_t MemoryPlan::rank_bytes() const noexcept {
  std::uint64_t bytes = 0;
  for (const PlanLine& line : lines) bytes += line.bytes;
  return bytes;
}

std::uint64_t MemoryPlan::machine_bytes() const noexcept {
  return rank_bytes() * static_cast<std::uint64_t>(request.ranks_here);
}

std::int64_t MemoryPlan::bytes_left() const noexcept {
  return static_cast<std::int64_t>(request.available_bytes) - static_cast<std::int64_t>(machine_bytes()) -
         static_cast<std::int64_t>(request.margin_bytes);
}

double MemoryPlan::kv_bytes_per_token() const noexcept {
  return kv_tokens == 0 ? 0 : static_cast<double>(kv_pool_bytes) / static_cast<double>(kv_tokens);
}

Result<MemoryPlan> plan_memory(const PlanRequest& request, const ModelConfig& config, const Checkpoint& checkpoint) {
  if (auto ok = check_request(request, config); !ok) return ok.error();
  auto numerics = parse_numerics(request.numerics, config.low_precision_weights);
  if (!numerics) return numerics.error();
  numerics->fp32_partials = numerics->fp32_partials || request.ranks > 1;
  auto measured = measure_weights(checkpoint, config, {{0, request.ranks}, request.draft});
  if (!measured) return measured.error();

  MemoryPlan plan;
  plan.request = request;
  plan.layout = layout_name(*measured);
  plan.packed_matrices = measured->packed_matrices;
  plan.packed_bits = measured->packed_bits();
  plan.weight_bytes = measured->bytes();
  plan.table_bytes = rows_on_disk(config.engram);
  describe_files(checkpoint, plan);
  PlanMaker maker(request, as_loaded(config, request.draft), *numerics, std::move(*measured));
  const auto largest = maker.largest_context(plan);
  if (!largest) return largest.error();
  plan.largest_context = *largest;
  const std::int64_t context = request.step.context > 0 ? request.step.context : config.max_positions;
  if (auto sized = maker.size(context, plan); !sized) return sized.error();
  return plan;
}

Result<MemoryPlan> plan_memory(const PlanRequest& request) {
  const auto config = ModelConfig::load(request.model);
  if (!config) return config.error();
  // What is wrong with the request is told before a hundred thousand headers are read.
  if (auto ok = check_request(request, *config); !ok) return ok.error();
  const auto checkpoint = Checkpoint::open(request.model);
  if (!checkpoint) return checkpoint.error();
  return plan_memory(request, *config, *checkpoint);
}

}  // namespace tandem::gpu
