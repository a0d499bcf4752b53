// `tandem bench step`: decode and verify steps of one rank of two, full size, random weights, as shares of this card's
// limits.
#include "ops/verbs/bench_step.hpp"

#include <iostream>
#include <memory>
#include <string>
#include <vector>

#if defined(TANDEM_HAVE_CUDA)
#include "gpu/cuda/bench/step_bench.hpp"
#endif

namespace tandem::ops {
namespace {

struct Arguments {
  std::string config;
  std::string weights;
  std::vector<int> rows{1, 2, 4, 6, 16};
  std::vector<std::int64_t> contexts{1024, 32768, 131072, 600000};
  bool operations = false;
  bool json = false;
};

int bench([[maybe_unused]] const Arguments& arguments) {
#if defined(TANDEM_HAVE_CUDA)
  gpu::cuda::bench::StepBenchOptions options;
  options.config = arguments.config;
  options.rows = arguments.rows;
  options.contexts = arguments.contexts;
  options.operations = arguments.operations;
  options.json = arguments.json;
  const auto done = gpu::cuda::bench::bench_step(options, std::cout);
  if (done) return exit_done;
  std::cerr << "tandem bench step: " << done.error().message() << '\n';
#else
  std::cerr << "tandem bench step: this build has no CUDA backend (TANDEM_CUDA=ON makes one)\n";
#endif
  return exit_failed;
}

}  // namespace

void add_bench_step(CLI::App& bench_verb, Run& run) {
  auto arguments = std::make_shared<Arguments>();
  CLI::App* verb = bench_verb.add_subcommand("step", "measure decode steps on a CUDA device against its limits");
  verb->add_option("--config", arguments->config, "config.json of the model")->required()->check(CLI::ExistingFile);
  verb->add_option("--weights", arguments->weights, "what fills the model")
      ->required()
      ->check(CLI::IsMember({"random"}));
  verb->add_option("--rows", arguments->rows, "rows of a step: 1 decodes, more verify drafts")
      ->check(CLI::Range(1, 64))
      ->capture_default_str();
  verb->add_option("--contexts", arguments->contexts, "positions before a step, ascending")
      ->check(CLI::Range(1, 1'000'000))
      ->capture_default_str();
  verb->add_flag("--operations", arguments->operations, "also the time of each operation by itself");
  verb->add_flag("--json", arguments->json, "one JSON object a line");
  verb->callback([arguments, &run] { run = [arguments] { return bench(*arguments); }; });
}

}  // namespace tandem::ops
