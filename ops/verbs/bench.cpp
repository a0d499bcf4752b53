// `tandem bench`: prefill and decode speed of a model on this machine, without HTTP and actors, as shares of the
// machine's own limits measured in the same run.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <future>
#include <iostream>
#include <memory>
#include <random>
#include <thread>

#include "gpu/engine.hpp"
#include "gpu/machine_limits.hpp"
#include "gpu/step_cost.hpp"
#include "ops/verb.hpp"
#include "ops/verbs/bench_engram.hpp"

namespace tandem::ops {

namespace {

struct Arguments {
  std::string model;
  std::string numerics = "serve";
  int ranks = 1;
  int threads = 0;
  int prompt = 1024;
  int decode = 128;
  int lanes = 8;
  int drafts = 3;
  bool json = false;
};

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

// All ranks of the model as threads of this process.
class Group {
 public:
  static Result<Group> load(const Arguments& arguments) {
    Group group;
    const int cores = std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
    gpu::EngineOptions options;
    options.model = arguments.model;
    options.numerics = arguments.numerics;
    options.lanes_max = arguments.lanes;
    options.max_positions = arguments.prompt + arguments.decode + 8;
    options.threads = arguments.threads > 0 ? arguments.threads : std::max(1, cores / arguments.ranks);
    if (arguments.ranks == 1)
      group.communicators_.push_back(gpu::make_solo_communicator());
    else
      group.communicators_ = gpu::make_thread_communicators(arguments.ranks, std::chrono::minutes(2));
    std::vector<std::future<Result<std::unique_ptr<gpu::Engine>>>> loading;
    for (auto& communicator : group.communicators_)
      loading.push_back(std::async(std::launch::async, [&options, &communicator] {
        return gpu::load_engine(
            options, *communicator, [](double, const std::string&) {}, nullptr);
      }));
    for (auto& one : loading) {
      auto engine = one.get();
      if (!engine) return engine.error();
      group.engines_.push_back(std::move(*engine));
    }
    return group;
  }

  const gpu::EngineInfo& info() const { return engines_.front()->info(); }

  Result<gpu::StepResult> step(const gpu::StepPlan& plan) {
    std::vector<std::future<Result<gpu::StepResult>>> others;
    for (std::size_t rank = 1; rank < engines_.size(); ++rank)
      others.push_back(std::async(std::launch::async, [&, rank] { return engines_[rank]->step(plan); }));
    auto result = engines_.front()->step(plan);
    for (auto& other : others)
      if (auto theirs = other.get(); !theirs) return theirs.error();
    return result;
  }

 private:
  std::vector<std::unique_ptr<gpu::Communicator>> communicators_;  // outlive the engines: destroyed last
  std::vector<std::unique_ptr<gpu::Engine>> engines_;
};

std::vector<gpu::TokenId> random_prompt(std::int64_t vocabulary, int length) {
  std::mt19937 random{7};
  std::vector<gpu::TokenId> ids(static_cast<std::size_t>(length));
  for (auto& id : ids) id = static_cast<gpu::TokenId>(3 + random() % static_cast<std::uint32_t>(vocabulary - 3));
  return ids;
}

struct Figures {
  double prefill_tokens_per_s = 0;
  double decode_tokens_per_s = 0;  // all lanes
  double tokens_per_step = 0;      // of one lane
};

// Prefills `lanes` sequences, then decodes them together.
Result<Figures> measure(Group& group, const Arguments& arguments, int lanes, int drafts, std::uint64_t& step) {
  const auto prompt = random_prompt(group.info().vocab_size, arguments.prompt);
  const auto rows = static_cast<std::size_t>(group.info().chunk_rows_max);
  const gpu::SequenceId first = step * 1000 + 1;
  const auto prefill_begin = Clock::now();
  for (int lane = 0; lane < lanes; ++lane)
    for (std::size_t at = 0; at < prompt.size(); at += rows) {
      gpu::StepPlan plan;
      plan.step = ++step;
      gpu::SequenceOpen open;
      open.id = first + static_cast<gpu::SequenceId>(lane);
      open.sampling.temperature = 0;
      open.max_tokens_total = static_cast<std::uint32_t>(arguments.prompt + arguments.decode + 8);
      if (at == 0) plan.open.push_back(open);
      const auto end = std::min(at + rows, prompt.size());
      plan.prefill.push_back(
          {open.id,
           static_cast<std::uint32_t>(at),
           {prompt.begin() + static_cast<std::ptrdiff_t>(at), prompt.begin() + static_cast<std::ptrdiff_t>(end)},
           end == prompt.size()});
      if (auto done = group.step(plan); !done) return done.error();
    }
  Figures figures;
  figures.prefill_tokens_per_s = static_cast<double>(prompt.size()) * lanes / seconds_since(prefill_begin);
  const auto decode_begin = Clock::now();
  std::size_t tokens = 0, steps = 0;
  std::uint32_t prepared = 0;
  while (tokens < static_cast<std::size_t>(arguments.decode) * static_cast<std::size_t>(lanes)) {
    gpu::StepPlan plan;
    plan.step = ++step;
    for (int lane = 0; lane < lanes; ++lane)
      plan.decode.push_back({first + static_cast<gpu::SequenceId>(lane), prepared, static_cast<std::uint32_t>(drafts)});
    prepared = static_cast<std::uint32_t>(drafts);
    auto done = group.step(plan);
    if (!done) return done.error();
    for (const auto& lane : done->lanes) tokens += lane.emitted.size();
    ++steps;
    if (done->lanes.front().length + 8 > static_cast<std::uint32_t>(arguments.prompt + arguments.decode)) break;
  }
  figures.decode_tokens_per_s = static_cast<double>(tokens) / seconds_since(decode_begin);
  figures.tokens_per_step = static_cast<double>(tokens) / static_cast<double>(steps * static_cast<std::size_t>(lanes));
  gpu::StepPlan closing;
  closing.step = ++step;
  for (int lane = 0; lane < lanes; ++lane) closing.close.push_back(first + static_cast<gpu::SequenceId>(lane));
  if (auto done = group.step(closing); !done) return done.error();
  return figures;
}

void print_line(const Arguments& arguments, const gpu::MachineLimits& limits, const gpu::StepCost& cost, int lanes,
                int drafts, const Figures& figures) {
  // Prefill reads each weight once for many rows: arithmetic bounds it. One decoding lane reads every weight for one
  // row: memory does.
  const double prefill_share = figures.prefill_tokens_per_s * cost.flops / limits.flops_per_s;
  const double read_share = figures.decode_tokens_per_s * cost.weight_bytes / limits.read_bytes_per_s;
  const double flop_share = figures.decode_tokens_per_s * cost.flops / limits.flops_per_s;
  if (arguments.json) {
    std::cout
        << fmt::format(
               R"({{"lanes":{},"drafts":{},"prefill_tokens_per_s":{:.1f},"prefill_flop_share":{:.4f},)"
               R"("decode_tokens_per_s":{:.1f},"decode_read_share":{:.4f},"decode_flop_share":{:.4f},"tokens_per_step":{:.2f}}})",
               lanes, drafts, figures.prefill_tokens_per_s, prefill_share, figures.decode_tokens_per_s, read_share,
               flop_share, figures.tokens_per_step)
        << '\n';
    return;
  }
  std::cout << fmt::format(
      "{:5} {:6} | {:9.0f} tok/s {:5.1f} % of FLOP rate | {:9.1f} tok/s {:5.1f} % of bandwidth {:5.1f} % of FLOP rate "
      "| {:.2f}\n",
      lanes, drafts, figures.prefill_tokens_per_s, 100 * prefill_share, figures.decode_tokens_per_s, 100 * read_share,
      100 * flop_share, figures.tokens_per_step);
}

int bench(const Arguments& arguments) {
  const auto fail = [](const Error& error, int exit_code) {
    std::cerr << "tandem bench: " << error.message() << '\n';
    return exit_code;
  };
  auto config = gpu::ModelConfig::load(arguments.model);
  if (!config) return fail(config.error(), exit_load_error);
  auto group = Group::load(arguments);
  if (!group) return fail(group.error(), exit_load_error);
  const int threads = arguments.threads > 0 ? arguments.threads * arguments.ranks
                                            : static_cast<int>(std::thread::hardware_concurrency());
  const gpu::MachineLimits limits = gpu::measure_machine_limits(threads);
  const gpu::StepCost cost = gpu::cost_of_token(*config);
  if (!arguments.json)
    std::cout << fmt::format(
                     "{} ranks, {} threads, {}: {:.1f} GB/s read, {:.1f} GFLOP/s; a token costs {:.2f} MFLOP, {:.2f} "
                     "MB of weights\n",
                     arguments.ranks, threads, limits.simd, limits.read_bytes_per_s / 1e9, limits.flops_per_s / 1e9,
                     cost.flops / 1e6, cost.weight_bytes / 1e6)
              << "lanes drafts | prefill                           | decode                                            "
                 "          | tokens/step\n";
  std::uint64_t step = 0;
  for (const auto& [lanes, drafts] : {std::pair{1, 0}, {1, arguments.drafts}, {arguments.lanes, 0}}) {
    auto figures = measure(*group, arguments, lanes, std::min(drafts, group->info().drafts_max), step);
    if (!figures) return fail(figures.error(), exit_failed);
    print_line(arguments, limits, cost, lanes, drafts, *figures);
  }
  return exit_done;
}

}  // namespace

void add_bench(CLI::App& app, Run& run) {
  auto arguments = std::make_shared<Arguments>();
  CLI::App* verb = app.add_subcommand("bench", "measure prefill and decode speed as shares of this machine's limits");
  verb->add_option("--model", arguments->model, "model folder");
  verb->add_option("--numerics", arguments->numerics, "serve, s32 or noq8")->capture_default_str();
  verb->add_option("--ranks", arguments->ranks, "ranks, as threads of this process")->check(CLI::Range(1, 64));
  verb->add_option("--threads", arguments->threads, "compute threads of one rank; 0 = cores / ranks")
      ->check(CLI::NonNegativeNumber);
  verb->add_option("--prompt", arguments->prompt, "prompt tokens")->check(CLI::PositiveNumber)->capture_default_str();
  verb->add_option("--decode", arguments->decode, "tokens generated per lane")
      ->check(CLI::Range(16, 1 << 20))
      ->capture_default_str();
  verb->add_option("--lanes", arguments->lanes, "lanes of the batch measurement")
      ->check(CLI::Range(1, 64))
      ->capture_default_str();
  verb->add_option("--drafts", arguments->drafts, "drafts of the speculative measurement")
      ->check(CLI::Range(0, 5))
      ->capture_default_str();
  verb->add_flag("--json", arguments->json, "one JSON object a line");
  add_bench_engram(*verb, run);
  verb->callback([arguments, verb, &run] {
    if (!verb->get_subcommands().empty()) return;  // it has set `run` already
    if (arguments->model.empty()) throw CLI::RequiredError("--model");
    run = [arguments] { return bench(*arguments); };
  });
}

}  // namespace tandem::ops
