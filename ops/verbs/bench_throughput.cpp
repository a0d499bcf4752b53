// Random prompts: the same work on every machine, whatever the model would answer to a question.
#include "ops/verbs/bench_throughput.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <random>
#include <utility>

namespace tandem::ops {

namespace {

using Clock = std::chrono::steady_clock;

// Room behind the last token for the drafts of the last step.
constexpr int spare_positions = 8;

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

std::vector<gpu::TokenId> random_prompt(std::int64_t vocabulary, int length, unsigned seed) {
  std::mt19937 random{seed};
  std::vector<gpu::TokenId> ids(static_cast<std::size_t>(length));
  for (auto& id : ids) id = static_cast<gpu::TokenId>(3 + random() % static_cast<std::uint32_t>(vocabulary - 3));
  return ids;
}

gpu::SequenceId lane_id(gpu::SequenceId first, int lane) {
  return first + static_cast<gpu::SequenceId>(lane);
}

// Opens one lane and feeds its prompt, chunk by chunk.
Result<void> prefill(BareRanks& ranks, const ThroughputWork& work, gpu::SequenceId id, std::uint64_t& step) {
  const auto prompt = random_prompt(ranks.info().vocab_size, work.prompt, static_cast<unsigned>(id));
  const auto rows = static_cast<std::size_t>(ranks.info().chunk_rows_max);
  for (std::size_t at = 0; at < prompt.size(); at += rows) {
    gpu::StepPlan plan;
    plan.step = ++step;
    if (at == 0) {
      gpu::SequenceOpen open;
      open.id = id;
      open.sampling.temperature = 0;
      open.max_tokens_total = static_cast<std::uint32_t>(work.prompt + work.decode + spare_positions);
      plan.open.push_back(std::move(open));
    }
    const auto end = std::min(at + rows, prompt.size());
    gpu::PrefillWork chunk;
    chunk.id = id;
    chunk.start = static_cast<std::uint32_t>(at);
    chunk.tokens.assign(prompt.begin() + static_cast<std::ptrdiff_t>(at),
                        prompt.begin() + static_cast<std::ptrdiff_t>(end));
    chunk.sample = end == prompt.size();
    plan.prefill.push_back(std::move(chunk));
    if (auto done = ranks.step(plan); !done) return done.error();
  }
  return {};
}

// Decodes all lanes together until they have the tokens that were asked for or the first one's room ends.
Result<void> decode(BareRanks& ranks, Throughput& figures, gpu::SequenceId first, std::uint64_t& step) {
  const ThroughputWork& work = figures.work;
  const auto wanted = static_cast<std::size_t>(work.decode) * static_cast<std::size_t>(work.lanes);
  const auto begin = Clock::now();
  std::size_t tokens = 0, lane_steps = 0;
  std::uint32_t prepared = 0;
  while (tokens < wanted) {
    gpu::StepPlan plan;
    plan.step = ++step;
    for (int lane = 0; lane < work.lanes; ++lane)
      plan.decode.push_back({lane_id(first, lane), prepared, static_cast<std::uint32_t>(work.drafts)});
    prepared = static_cast<std::uint32_t>(work.drafts);
    auto done = ranks.step(plan);
    if (!done) return done.error();
    std::uint32_t longest = 0;
    for (const auto& lane : done->lanes) {
      tokens += lane.emitted.size();
      longest = std::max(longest, lane.length);
    }
    lane_steps += done->lanes.size();
    if (longest + spare_positions > static_cast<std::uint32_t>(work.prompt + work.decode)) break;
  }
  figures.decode_tokens_per_s = static_cast<double>(tokens) / seconds_since(begin);
  figures.tokens_per_step = static_cast<double>(tokens) / static_cast<double>(lane_steps);
  return {};
}

struct Shares {
  double prefill_flops, decode_read, decode_flops;
};

// Prefill reads each weight once for many rows: arithmetic bounds it. One decoding lane reads every weight for one row:
// memory does.
Shares shares_of(const Throughput& figures, const gpu::MachineLimits& limits, const gpu::StepCost& cost) {
  return {figures.prefill_tokens_per_s * cost.flops / limits.flops_per_s,
          figures.decode_tokens_per_s * cost.weight_bytes / limits.read_bytes_per_s,
          figures.decode_tokens_per_s * cost.flops / limits.flops_per_s};
}

}  // namespace

Result<Throughput> measure_throughput(BareRanks& ranks, const ThroughputWork& work, std::uint64_t& step) {
  Throughput figures;
  figures.work = work;
  const gpu::SequenceId first = step * 1000 + 1;
  const auto begin = Clock::now();
  for (int lane = 0; lane < work.lanes; ++lane)
    if (auto fed = prefill(ranks, work, lane_id(first, lane), step); !fed) return fed.error();
  figures.prefill_tokens_per_s = static_cast<double>(work.prompt) * work.lanes / seconds_since(begin);
  if (auto decoded = decode(ranks, figures, first, step); !decoded) return decoded.error();
  gpu::StepPlan closing;
  closing.step = ++step;
  for (int lane = 0; lane < work.lanes; ++lane) closing.close.push_back(lane_id(first, lane));
  if (auto done = ranks.step(closing); !done) return done.error();
  return figures;
}

std::string throughput_heading() {
  return "lanes drafts | prefill                           | decode                                                  "
         "    | tokens/step\n";
}

std::string throughput_line(const Throughput& figures, const gpu::MachineLimits& limits, const gpu::StepCost& cost) {
  const Shares shares = shares_of(figures, limits, cost);
  return fmt::format(
      "{:5} {:6} | {:9.0f} tok/s {:5.1f} % of FLOP rate | {:9.1f} tok/s {:5.1f} % of bandwidth {:5.1f} % of FLOP rate "
      "| {:.2f}\n",
      figures.work.lanes, figures.work.drafts, figures.prefill_tokens_per_s, 100 * shares.prefill_flops,
      figures.decode_tokens_per_s, 100 * shares.decode_read, 100 * shares.decode_flops, figures.tokens_per_step);
}

std::string throughput_json(const Throughput& figures, const gpu::MachineLimits& limits, const gpu::StepCost& cost) {
  const Shares shares = shares_of(figures, limits, cost);
  return fmt::format(
      R"({{"what":"bare","lanes":{},"drafts":{},"prefill_tokens_per_s":{:.1f},"prefill_flop_share":{:.4f},)"
      R"("decode_tokens_per_s":{:.1f},"decode_read_share":{:.4f},"decode_flop_share":{:.4f},"tokens_per_step":{:.2f}}})"
      "\n",
      figures.work.lanes, figures.work.drafts, figures.prefill_tokens_per_s, shares.prefill_flops,
      figures.decode_tokens_per_s, shares.decode_read, shares.decode_flops, figures.tokens_per_step);
}

}  // namespace tandem::ops
