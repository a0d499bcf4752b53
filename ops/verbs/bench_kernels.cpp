// `tandem bench kernels`: EXL3 products of the released model's shapes, as shares of this card's limits.
#include "ops/verbs/bench_kernels.hpp"

#include <iostream>
#include <memory>
#include <vector>

#if defined(TANDEM_HAVE_CUDA)
#include "gpu/cuda/bench/kernel_bench.hpp"
#endif

namespace tandem::ops {
namespace {

struct Arguments {
  std::vector<int> rows{1, 2, 4, 6, 8, 16, 64};
  bool json = false;
};

int bench([[maybe_unused]] const Arguments& arguments) {
#if defined(TANDEM_HAVE_CUDA)
  const auto done = gpu::cuda::bench::bench_kernels({0, arguments.rows, arguments.json}, std::cout);
  if (done) return exit_done;
  std::cerr << "tandem bench kernels: " << done.error().message() << '\n';
#else
  std::cerr << "tandem bench kernels: this build has no CUDA backend (TANDEM_CUDA=ON makes one)\n";
#endif
  return exit_failed;
}

}  // namespace

void add_bench_kernels(CLI::App& bench_verb, Run& run) {
  auto arguments = std::make_shared<Arguments>();
  CLI::App* verb = bench_verb.add_subcommand("kernels", "measure EXL3 products on a CUDA device against its limits");
  verb->add_option("--rows", arguments->rows, "rows of a call")->check(CLI::Range(1, 64))->capture_default_str();
  verb->add_flag("--json", arguments->json, "one JSON object a line");
  verb->callback([arguments, &run] { run = [arguments] { return bench(*arguments); }; });
}

}  // namespace tandem::ops
