// `tandem bench`: how fast a model runs on this machine. Bare ranks first, as shares of the machine's own limits
// measured in the same run; then the whole server over HTTP, and where the time of its decode steps goes.
#include <fmt/format.h>

#include <algorithm>
#include <iostream>
#include <memory>
#include <thread>

#include "ops/verb.hpp"
#include "ops/verbs/bench_breakdown.hpp"
#include "ops/verbs/bench_engram.hpp"
#include "ops/verbs/bench_kernels.hpp"
#include "ops/verbs/bench_prefill.hpp"
#include "ops/verbs/bench_step.hpp"
#include "ops/verbs/bench_throughput.hpp"

namespace tandem::ops {

namespace {

struct Arguments {
  std::string model;
  std::string backend = "cpu";
  std::string numerics = "serve";
  int ranks = 1;
  int threads = 0;
  int prompt = 1024;
  int decode = 128;
  int lanes = 8;
  int drafts = 3;
  int steps = 400;
  int warm_steps = 64;
  bool waits = false;
  bool bare_only = false;
  bool json = false;
};

// What a lane's question may cost at most beyond the numbers in it: the chat's own words.
constexpr int question_tokens = 64;

int fail(const Error& error, int exit_code) {
  std::cerr << "tandem bench: " << error.message() << '\n';
  return exit_code;
}

int all_threads(const Arguments& arguments) {
  return arguments.threads > 0 ? arguments.threads * arguments.ranks
                               : static_cast<int>(std::thread::hardware_concurrency());
}

gpu::EngineOptions bare_options(const Arguments& arguments) {
  gpu::EngineOptions options;
  options.model = arguments.model;
  options.backend = arguments.backend;
  options.numerics = arguments.numerics;
  options.lanes_max = arguments.lanes;
  options.max_positions = arguments.prompt + arguments.decode + 8;
  options.threads = std::max(1, all_threads(arguments) / arguments.ranks);
  return options;
}

// The four kinds of a decode step: one lane or many, without and with drafts. Where two are the same one is measured.
std::vector<std::pair<int, int>> kinds(const Arguments& arguments, int drafts_max) {
  std::vector<std::pair<int, int>> kinds;
  for (const int lanes : {1, arguments.lanes})
    for (const int drafts : {0, std::min(arguments.drafts, drafts_max)})
      if (std::find(kinds.begin(), kinds.end(), std::pair{lanes, drafts}) == kinds.end())
        kinds.emplace_back(lanes, drafts);
  return kinds;
}

Result<void> bench_bare(const Arguments& arguments, const gpu::ModelConfig& config, BareRanks& ranks) {
  const gpu::MachineLimits limits = gpu::measure_machine_limits(all_threads(arguments));
  const gpu::StepCost cost = gpu::cost_of_token(config);
  if (!arguments.json)
    std::cout << fmt::format(
                     "{} ranks, {} threads, {}: {:.1f} GB/s read, {:.1f} GFLOP/s; a token costs {:.2f} MFLOP, {:.2f} "
                     "MB of weights\n",
                     arguments.ranks, all_threads(arguments), limits.simd, limits.read_bytes_per_s / 1e9,
                     limits.flops_per_s / 1e9, cost.flops / 1e6, cost.weight_bytes / 1e6)
              << throughput_heading();
  std::uint64_t step = 0;
  for (const auto& [lanes, drafts] : kinds(arguments, ranks.info().drafts_max)) {
    auto figures = measure_throughput(ranks, {arguments.prompt, arguments.decode, lanes, drafts}, step);
    if (!figures) return figures.error();
    std::cout << (arguments.json ? throughput_json(*figures, limits, cost) : throughput_line(*figures, limits, cost))
              << std::flush;
  }
  return {};
}

LoadOptions load_of(const Arguments& arguments, int lanes, int drafts, std::int64_t context) {
  LoadOptions load;
  load.lanes = lanes;
  load.prompt = std::min(arguments.prompt, static_cast<int>(context) / 4);
  load.warm_steps = arguments.warm_steps;
  load.steps = arguments.steps;
  // Lanes that were accepted first have generated for a while when the last one joins.
  const int longest = (arguments.warm_steps + arguments.steps) * (1 + drafts) + 64 * lanes;
  load.answer_tokens = std::min(longest, static_cast<int>(context) - load.prompt - question_tokens);
  return load;
}

// All kinds of steps with one number of drafts: served first, then the same plans on bare ranks.
Result<void> bench_served(const Arguments& arguments, const gpu::ModelConfig& config, int drafts,
                          std::vector<Breakdown>& rows) {
  auto served = ServedModel::start({arguments.model, arguments.backend, arguments.numerics, arguments.ranks,
                                    arguments.threads, arguments.lanes, drafts, !arguments.waits});
  if (!served) return served.error();
  std::vector<SteadyRun> runs;
  for (const auto& [lanes, of_kind] : kinds(arguments, drafts)) {
    if (of_kind != drafts) continue;
    auto run = (*served)->measure(load_of(arguments, lanes, drafts, config.max_positions));
    if (!run) return run.error();
    runs.push_back(std::move(*run));
  }
  const gpu::EngineOptions engine = (*served)->engine_options();
  const auto log = (*served)->stop();
  served->reset();
  auto ranks = BareRanks::load(engine, arguments.ranks);
  if (!ranks) return ranks.error();
  const auto bare = replay(*ranks, log);
  if (!bare) return bare.error();
  for (const SteadyRun& run : runs) rows.push_back(break_down(run, log, *bare));
  return {};
}

Result<void> bench_all_served(const Arguments& arguments, const gpu::ModelConfig& config, int drafts_max) {
  std::vector<Breakdown> rows;
  if (auto done = bench_served(arguments, config, 0, rows); !done) return done;
  const int drafts = std::min(arguments.drafts, drafts_max);
  if (drafts > 0)
    if (auto done = bench_served(arguments, config, drafts, rows); !done) return done;
  if (!arguments.json) {
    std::cout << fmt::format("served over HTTP, {} warm decode steps each:\n{}", arguments.steps,
                             breakdown_table(rows));
    return {};
  }
  for (const Breakdown& row : rows) std::cout << breakdown_json(row);
  return {};
}

int bench(const Arguments& arguments) {
  auto config = gpu::ModelConfig::load(arguments.model);
  if (!config) return fail(config.error(), exit_load_error);
  int drafts_max = 0;
  {
    auto ranks = BareRanks::load(bare_options(arguments), arguments.ranks);
    if (!ranks) return fail(ranks.error(), exit_load_error);
    if (auto done = bench_bare(arguments, *config, *ranks); !done) return fail(done.error(), exit_failed);
    drafts_max = ranks->info().drafts_max;
  }
  if (arguments.bare_only) return exit_done;
  if (auto done = bench_all_served(arguments, *config, drafts_max); !done) return fail(done.error(), exit_failed);
  return exit_done;
}

void add_options(CLI::App& verb, Arguments& arguments) {
  verb.add_option("--model", arguments.model, "model folder");
  verb.add_option("--backend", arguments.backend, "cpu, or cuda in builds that have it")
      ->check(CLI::IsMember({"cpu", "cuda"}))
      ->capture_default_str();
  verb.add_option("--numerics", arguments.numerics, "serve, s32 or noq8")->capture_default_str();
  verb.add_option("--ranks", arguments.ranks, "ranks, as threads of this process")->check(CLI::Range(1, 64));
  verb.add_option("--threads", arguments.threads, "compute threads of one rank; 0 = cores / ranks")
      ->check(CLI::Range(0, 1024));
  verb.add_option("--prompt", arguments.prompt, "prompt tokens; served: at most a quarter of the context")
      ->check(CLI::Range(1, 1 << 20))
      ->capture_default_str();
  verb.add_option("--decode", arguments.decode, "tokens generated per lane of bare ranks")
      ->check(CLI::Range(16, 1 << 20))
      ->capture_default_str();
  verb.add_option("--lanes", arguments.lanes, "lanes of the batch measurement")
      ->check(CLI::Range(1, 64))
      ->capture_default_str();
  verb.add_option("--drafts", arguments.drafts, "drafts of the speculative measurement")
      ->check(CLI::Range(0, 5))
      ->capture_default_str();
  verb.add_option("--steps", arguments.steps, "decode steps of the served measurement")
      ->check(CLI::Range(16, 100'000))
      ->capture_default_str();
  verb.add_option("--warm-steps", arguments.warm_steps, "decode steps before the first that counts")
      ->check(CLI::Range(1, 100'000))
      ->capture_default_str();
  verb.add_flag("--bare", arguments.bare_only, "bare ranks only: no actors, no HTTP");
  verb.add_flag("--wait", arguments.waits, "send a step when the one before it has ended, not while it runs");
  verb.add_flag("--json", arguments.json, "one JSON object a line");
}

}  // namespace

void add_bench(CLI::App& app, Run& run) {
  auto arguments = std::make_shared<Arguments>();
  CLI::App* verb = app.add_subcommand("bench", "measure the speed of bare ranks and of the whole server");
  add_options(*verb, *arguments);
  add_bench_engram(*verb, run);
  add_bench_kernels(*verb, run);
  add_bench_step(*verb, run);
  add_bench_prefill(*verb, run);
  verb->callback([arguments, verb, &run] {
    if (!verb->get_subcommands().empty()) return;  // it has set `run` already
    if (arguments->model.empty()) throw CLI::RequiredError("--model");
    run = [arguments] { return bench(*arguments); };
  });
}

}  // namespace tandem::ops
