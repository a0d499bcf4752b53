// bench_cuda kernels | experts | chunks | step CONFIG_JSON | prefill CONFIG_JSON, each with [--json] [--operations]
// [--quick] [--rows=N] [--position=N]: the measurements of `tandem bench` in a program that needs no actor framework.
// `experts`: the grouped ones of `kernels`; N rows instead of the usual numbers, of steps at the shortest context and
// of chunks; one position of chunks instead of the usual ones, of steps beside the shortest.
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <string>

#include "gpu/cuda/bench/chunk_bench.hpp"
#include "gpu/cuda/bench/kernel_bench.hpp"
#include "gpu/cuda/bench/prefill_bench.hpp"
#include "gpu/cuda/bench/step_bench.hpp"

namespace {

using namespace tandem;
using namespace tandem::gpu::cuda::bench;

struct Arguments {
  std::string bench, config;
  int rows = 0;
  std::int64_t position = -1;
  bool json = false, operations = false, quick = false;
};

Arguments read(int argc, char** argv) {
  Arguments arguments;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    if (word == "--json") {
      arguments.json = true;
    } else if (word == "--operations") {
      arguments.operations = true;
    } else if (word == "--quick") {
      arguments.quick = true;
    } else if (word.starts_with("--rows=")) {
      arguments.rows = std::atoi(word.c_str() + std::strlen("--rows="));
    } else if (word.starts_with("--position=")) {
      arguments.position = std::atoll(word.c_str() + std::strlen("--position="));
    } else {
      (arguments.bench.empty() ? arguments.bench : arguments.config) = word;
    }
  }
  return arguments;
}

Result<void> run(const Arguments& arguments) {
  if (arguments.bench == "kernels" || arguments.bench == "experts") {
    KernelBenchOptions options;
    if (arguments.quick) options.rows = {1, 8, 64};
    if (arguments.rows > 0) options.rows = {arguments.rows};
    options.experts_only = arguments.bench == "experts";
    options.json = arguments.json;
    return bench_kernels(options, std::cout);
  }
  if (arguments.bench == "chunks") {
    ChunkBenchOptions options;
    if (arguments.quick) options.rows = {2048};
    return bench_chunks(options, std::cout);
  }
  if (arguments.bench == "step") {
    StepBenchOptions options;
    options.config = arguments.config;
    if (arguments.quick) options.rows = {1, 6};
    if (arguments.quick) options.contexts = {1024, 600000};
    if (arguments.rows > 0) options.rows = {arguments.rows};
    if (arguments.rows > 0) options.contexts = {1024};
    if (arguments.position > 1024) options.contexts = {1024, arguments.position};  // limits come from the short one
    options.operations = arguments.operations;
    options.json = arguments.json;
    return bench_step(options, std::cout);
  }
  if (arguments.bench == "prefill") {
    PrefillBenchOptions options;
    options.config = arguments.config;
    if (arguments.quick) options.chunks = {2048};
    if (arguments.quick) options.positions = {0, 131072};
    if (arguments.rows > 0) options.chunks = {arguments.rows};
    if (arguments.position >= 0) options.positions = {arguments.position};
    options.operations = arguments.operations;
    options.json = arguments.json;
    return bench_prefill(options, std::cout);
  }
  return Error{ErrorCode::invalid_argument, "bench_cuda", "'" + arguments.bench + "'",
               "kernels, experts, chunks, step or prefill"};
}

}  // namespace

int main(int argc, char** argv) {
  const auto done = run(read(argc, argv));
  if (!done) std::cerr << done.error().message() << '\n';
  return done ? 0 : 1;
}
