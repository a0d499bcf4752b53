// Steps of one sequence: one row is a decode step, more are a verify burst; logits of all rows.
//
// Every row holds another random token, so rows choose their experts independently; a second line has one token in all
// rows, whose experts agree as those of a burst may, a third one fewer tokens than rows. `ms` is from one step's end to
// the next, the host's part included where the device waits for it; `host us` what the host spends until a step is
// launched. Each figure is the mean of `steps` steps behind some that are not counted. `ahead` is the same for steps
// that are issued without waiting for the one before, as nobody can who draws a token from each: what the device alone
// would take. *prepared* is a step as an engine issues it: walked while the one before it runs.
#include "gpu/cuda/bench/step_bench.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include "gpu/cuda/bench/random_shard.hpp"
#include "gpu/cuda/bench/step_limit.hpp"
#include "gpu/cuda/bench/stopwatch.hpp"
#include "gpu/cuda/cuda_ops.hpp"

namespace tandem::gpu::cuda::bench {
namespace {

constexpr int steps = 12, warm_steps = 8;
constexpr std::int64_t shares_most = 65536;     // positions
constexpr std::int64_t spare_positions = 8192;  // for the steps behind the longest context

using Clock = std::chrono::steady_clock;

double micros_since(Clock::time_point start) {
  return std::chrono::duration<double, std::micro>(Clock::now() - start).count();
}

struct Measured {
  double ms = 0, median_ms = 0, ahead_ms = 0, host_us = 0;
  double wait_us = 0, walk_us = 0, copy_us = 0, start_us = 0;  // parts of host_us
  std::int64_t operations = 0, nodes = 0, allocations = 0, length = 0;
};

// How steps are issued: operation by operation, as graphs, or as graphs of which the next one is prepared while the
// device works, as an engine does it.
enum class Issue { operations, graphs, prepared };

Result<Measured> time_steps(RandomShard& shard, int rows, Tokens tokens, Issue issue) {
  Ops& ops = *shard.model().ops;
  const bool as_one = issue != Issue::operations;
  for (int i = 0; i < warm_steps; ++i) {
    if (auto ok = shard.step(rows, rows, tokens, {}, as_one); !ok) return ok.error();
    if (issue == Issue::prepared) shard.prepare(rows);
  }
  if (auto ok = ops.wait(); !ok) return ok.error();
  const CudaUse before = use_of(ops);
  Measured result;
  std::vector<double> each;
  const auto start = Clock::now();
  for (int i = 0; i < steps; ++i) {
    const auto begin = Clock::now();
    if (auto ok = shard.step(rows, rows, tokens, {}, as_one); !ok) return ok.error();
    result.host_us += micros_since(begin) / steps;
    if (issue == Issue::prepared) shard.prepare(rows);
    if (auto ok = ops.wait(); !ok) return ok.error();
    each.push_back(micros_since(begin) / 1e3);
  }
  result.ms = micros_since(start) / 1e3 / steps;
  std::sort(each.begin(), each.end());
  result.median_ms = each[each.size() / 2];
  const CudaUse after = use_of(ops);
  result.wait_us = (after.wait_us - before.wait_us) / steps;
  result.walk_us = (after.walk_us - before.walk_us) / steps;
  result.copy_us = (after.copy_us - before.copy_us) / steps;
  result.start_us = (after.start_us - before.start_us) / steps;
  result.operations = (after.operations - before.operations) / steps;
  result.nodes = as_one ? after.graph_nodes : 0;
  result.allocations = after.allocations - before.allocations;
  result.length = shard.length();
  const auto ahead = Clock::now();
  for (int i = 0; i < steps; ++i) {
    if (auto ok = shard.step(rows, rows, tokens, {}, as_one); !ok) return ok.error();
  }
  if (auto ok = ops.wait(); !ok) return ok.error();
  result.ahead_ms = micros_since(ahead) / 1e3 / steps;
  return result;
}

// The limits of steps, from the experts that one step of the kind chose; it is looked at once, where the context is
// short, because a probe sees every score of the indexer.
class Limits {
 public:
  Limits(RandomShard& shard, const CardLimits& card) : shard_(shard), card_(card) {}

  Result<StepLimit> of(int rows, Tokens tokens) {
    auto& distinct = distinct_[{rows, tokens}];
    if (distinct.empty()) {
      ExpertCounter counter;
      ForwardOptions options;
      options.probe = &counter;
      if (auto ok = shard_.step(rows, rows, tokens, options, false); !ok) return ok.error();
      if (auto ok = shard_.model().ops->wait(); !ok) return ok.error();
      distinct = counter.distinct();
    }
    return limit_of_step(shard_.model(), card_, {rows, shard_.length(), rows, distinct});
  }

 private:
  RandomShard& shard_;
  const CardLimits& card_;
  std::map<std::pair<int, Tokens>, std::vector<int>> distinct_;
};

class Report {
 public:
  Report(std::ostream& out, bool json) : out_(out), json_(json) {}

  void add(int rows, const char* kind, const Measured& m, const StepLimit& limit) const {
    const double limit_ms = limit.seconds() * 1e3;
    if (json_) {
      out_ << fmt::format(
          R"({{"bench":"step","rows":{},"context":{},"kind":"{}","ms":{:.4f},"ahead_ms":{:.4f},"host_us":{:.1f},)"
          R"("walk_us":{:.1f},"start_us":{:.1f},"operations":{},)"
          R"("nodes":{},"allocations":{},"bytes":{:.0f},"limit_ms":{:.4f},"times_limit":{:.3f},"blocks":{{)",
          rows, m.length, kind, m.ms, m.ahead_ms, m.host_us, m.walk_us, m.start_us, m.operations, m.nodes,
          m.allocations, limit.bytes(), limit_ms, m.ms / limit_ms);
      for (const BlockLimit& block : limit.blocks) {
        out_ << fmt::format(R"({}"{}":{{"bytes":{:.0f},"limit_ms":{:.4f}}})", &block == limit.blocks.data() ? "" : ",",
                            block.name, block.bytes, block.seconds * 1e3);
      }
      out_ << "}}\n" << std::flush;
      return;
    }
    out_ << fmt::format(
                "M={:<3} context {:>7} {:11} {:8.3f} ms, ahead {:.3f}; {} operations, {} nodes, {} allocations; "
                "{:.2f} GB, limit {:.3f} ms, {:.2f} times it\n",
                rows, m.length, kind, m.ms, m.ahead_ms, m.operations, m.nodes, m.allocations, limit.bytes() / 1e9,
                limit_ms, m.ms / limit_ms)
         << fmt::format("    host {:.1f} us; walks {:.1f}, copies {:.1f}, starts {:.1f}, waits {:.1f}\n", m.host_us,
                        m.walk_us, m.copy_us, m.start_us, m.wait_us)
         << std::flush;
  }

  void add_blocks(const StepLimit& limit) const {
    if (json_) return;
    for (const BlockLimit& block : limit.blocks) {
      out_ << fmt::format("    {:10} {:7.3f} GB  limit {:6.3f} ms\n", block.name, block.bytes / 1e9,
                          block.seconds * 1e3);
    }
  }

 private:
  std::ostream& out_;
  bool json_;
};

// What each operation adds to a step: the time that the step takes longer when it is launched twice. An operation that
// others hide adds nothing. Medians, because some steps capture a new graph.
Result<void> write_shares(RandomShard& shard, int rows, const std::vector<const char*>& names, std::ostream& out) {
  Ops& ops = *shard.model().ops;
  const auto before = time_steps(shard, rows, Tokens::random, Issue::graphs);
  if (!before) return before.error();
  std::vector<std::pair<double, const char*>> shares;
  double sum = 0;
  for (const char* name : names) {
    repeat_launches(ops, name);
    const auto twice = time_steps(shard, rows, Tokens::random, Issue::graphs);
    repeat_launches(ops, nullptr);
    if (!twice) return twice.error();
    shares.emplace_back(twice->median_ms - before->median_ms, name);
    sum += shares.back().first;
  }
  std::sort(shares.rbegin(), shares.rend());
  out << fmt::format("  launched twice, step of {} rows ({:.3f} ms):\n", rows, before->median_ms);
  for (const auto& [ms, name] : shares) out << fmt::format("    {:28} adds {:7.3f} ms\n", name, ms);
  out << fmt::format("    sum {:.2f} ms\n", sum) << std::flush;
  return {};
}

Result<void> write_operations(RandomShard& shard, int rows, std::ostream& out, bool json) {
  Stopwatch watch;
  Ops& ops = *shard.model().ops;
  observe_launches(ops, &watch);
  auto done = shard.step(rows, rows, Tokens::random, {}, false);
  if (done) done = ops.wait();
  observe_launches(ops, nullptr);
  if (!done) return done;
  const std::vector<const char*> names = watch.names();
  watch.write(out, json);
  // Where the context is short, what grows with it adds least to every figure.
  return json || shard.length() >= shares_most ? Result<void>() : write_shares(shard, rows, names, out);
}

// All kinds of steps at the sequence's present length.
Result<void> bench_rows(RandomShard& shard, Limits& limits, int rows, const Report& report) {
  const auto add = [&](const char* kind, Tokens tokens, Issue issue) -> Result<void> {
    const auto limit = limits.of(rows, tokens);
    if (!limit) return limit.error();
    const auto measured = time_steps(shard, rows, tokens, issue);
    if (!measured) return measured.error();
    report.add(rows, kind, *measured, *limit);
    if (issue == Issue::graphs && tokens == Tokens::random && (rows == 1 || rows == 6)) report.add_blocks(*limit);
    return {};
  };
  if (auto ok = add("graph", Tokens::random, Issue::graphs); !ok) return ok;
  if (auto ok = add("prepared", Tokens::random, Issue::prepared); !ok) return ok;
  if (rows == 1) return add("launches", Tokens::random, Issue::operations);
  if (auto ok = add("some tokens", Tokens::some, Issue::graphs); !ok) return ok;
  return add("one token", Tokens::one, Issue::graphs);
}

}  // namespace

Result<void> bench_step(const StepBenchOptions& options, std::ostream& out) {
  const auto card = measure_limits(0);
  if (!card) return card.error();
  write_limits(out, *card, options.json);
  const std::int64_t longest = *std::max_element(options.contexts.begin(), options.contexts.end());
  const auto start = Clock::now();
  const int rows_most = *std::max_element(options.rows.begin(), options.rows.end());
  auto shard = RandomShard::make({options.config, longest + spare_positions, rows_most});
  if (!shard) return shard.error();
  if (!options.json) {
    out << fmt::format("random weights: {:.2f} GiB, caches {:.2f} GiB, in {:.1f} s\n",
                       static_cast<double>((*shard)->model().weights.bytes) / (1 << 30),
                       static_cast<double>((*shard)->cache_bytes()) / (1 << 30), micros_since(start) / 1e6);
  }
  const Report report(out, options.json);
  Limits limits(**shard, *card);
  for (const std::int64_t context : options.contexts) {
    if (auto ok = (*shard)->extend(context, Tokens::random); !ok) return ok;
    for (const int rows : options.rows) {
      if (auto ok = bench_rows(**shard, limits, rows, report); !ok) return ok;
      const bool is_edge = context == options.contexts.front() || context == longest;
      if (!options.operations || !is_edge || (rows != 1 && rows != 6)) continue;
      if (auto ok = write_operations(**shard, rows, out, options.json); !ok) return ok;
    }
  }
  return {};
}

}  // namespace tandem::gpu::cuda::bench
