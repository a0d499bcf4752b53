// `tandem bench prefill`: chunks of a prompt through one rank of two, full size, random weights.
#include "ops/verbs/bench_prefill.hpp"

#include <iostream>
#include <memory>
#include <string>
#include <vector>

#if defined(TANDEM_HAVE_CUDA)
#include "gpu/cuda/bench/prefill_bench.hpp"
#endif

namespace tandem::ops {
namespace {

struct Arguments {
  std::string config;
  std::string weights;
  std::vector<int> chunks{1024, 2048, 4096};
  std::vector<std::int64_t> positions{0, 32768, 131072, 600000};
  bool operations = false;
  bool json = false;
};

int bench([[maybe_unused]] const Arguments& arguments) {
#if defined(TANDEM_HAVE_CUDA)
  gpu::cuda::bench::PrefillBenchOptions options;
  options.config = arguments.config;
  options.chunks = arguments.chunks;
  options.positions = arguments.positions;
  options.operations = arguments.operations;
  options.json = arguments.json;
  const auto done = gpu::cuda::bench::bench_prefill(options, std::cout);
  if (done) return exit_done;
  std::cerr << "tandem bench prefill: " << done.error().message() << '\n';
#else
  std::cerr << "tandem bench prefill: this build has no CUDA backend (TANDEM_CUDA=ON makes one)\n";
#endif
  return exit_failed;
}

}  // namespace

void add_bench_prefill(CLI::App& bench_verb, Run& run) {
  auto arguments = std::make_shared<Arguments>();
  CLI::App* verb = bench_verb.add_subcommand("prefill", "measure chunks of a prompt on a CUDA device");
  verb->add_option("--config", arguments->config, "config.json of the model")->required()->check(CLI::ExistingFile);
  verb->add_option("--weights", arguments->weights, "what fills the model")
      ->required()
      ->check(CLI::IsMember({"random"}));
  verb->add_option("--chunks", arguments->chunks, "rows of a chunk")->check(CLI::Range(1, 8192))->capture_default_str();
  verb->add_option("--positions", arguments->positions, "positions before a chunk, ascending")
      ->check(CLI::Range(0, 1'000'000))
      ->capture_default_str();
  verb->add_flag("--operations", arguments->operations, "also the time of each operation by itself");
  verb->add_flag("--json", arguments->json, "one JSON object a line");
  verb->callback([arguments, &run] { run = [arguments] { return bench(*arguments); }; });
}

}  // namespace tandem::ops
