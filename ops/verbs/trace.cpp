// `tandem trace`: runs given token ids through the model and writes logits (and every layer's tensors) to a safetensors
// file.
#include <fmt/format.h>

#include <iostream>
#include <memory>
#include <utility>
#include <vector>

#include "gpu/trace.hpp"
#include "ops/verb.hpp"

namespace tandem::ops {

namespace {

struct Arguments {
  gpu::TraceOptions options;
  std::string ids_file, then_file;
};

// Load errors exit 14 from every verb; a wrong file of ids or flag of this command is a usage error.
int fail(const Error& error, int exit_code) {
  std::cerr << "tandem trace: " << error.message() << '\n';
  return exit_code;
}

int exit_code_of(gpu::TraceStage stage) {
  if (stage == gpu::TraceStage::options) return exit_usage;
  return stage == gpu::TraceStage::load ? exit_load_error : exit_failed;
}

// A file without a single id is no prompt and nothing to feed.
Result<std::vector<std::int32_t>> read_ids(const std::string& file) {
  auto ids = gpu::read_token_ids(file);
  if (ids && ids->empty()) return Error{ErrorCode::invalid_argument, file, "no token id", "at least one"};
  return ids;
}

int trace(Arguments& arguments) {
  auto ids = read_ids(arguments.ids_file);
  if (!ids) return fail(ids.error(), exit_usage);
  arguments.options.ids = std::move(*ids);
  if (!arguments.then_file.empty()) {
    auto then = read_ids(arguments.then_file);
    if (!then) return fail(then.error(), exit_usage);
    arguments.options.then = std::move(*then);
  }
  if (auto done = gpu::run_trace(arguments.options); !done)
    return fail(done.error().cause, exit_code_of(done.error().stage));
  std::cout << fmt::format("{} prompt ids, {} forced ids, numerics {}: {}\n", arguments.options.ids.size(),
                           arguments.options.then.size(), arguments.options.numerics, arguments.options.out.string());
  return exit_done;
}

}  // namespace

void add_trace(CLI::App& app, Run& run) {
  auto arguments = std::make_shared<Arguments>();
  auto& options = arguments->options;
  CLI::App* verb = app.add_subcommand("trace", "write the logits of given token ids to a safetensors file");
  verb->add_option("--model", options.model, "model folder")->required();
  verb->add_option("--ids", arguments->ids_file, "file of token ids separated by white space: the prompt")->required();
  CLI::Option* then =
      verb->add_option("--then", arguments->then_file, "file of token ids to feed one per step behind the prompt");
  verb->add_option("--numerics", options.numerics, "serve, fp32, q32, s32 or noq8")->capture_default_str();
  verb->add_option("--backend", options.backend, "cpu, or cuda in builds that have it")
      ->check(CLI::IsMember({"cpu", "cuda"}))
      ->capture_default_str();
  verb->add_option("--chunk", options.chunk, "rows of a prefill chunk; without it the whole prompt is one")
      ->check(CLI::Range(1, 1 << 20));
  verb->add_option("--ranks", options.ranks, "ranks, as threads of this process")->check(CLI::Range(1, 64));
  verb->add_option("--threads", options.threads, "compute threads; 0 = all cores")->check(CLI::Range(0, 1024));
  verb->add_flag("--layers", options.layers, "write every layer's tensors as well");
  verb->add_option("--spec", options.spec, "verify K drafts a step and write them")
      ->check(CLI::Range(0, 5))
      ->needs(then);
  verb->add_option("--out", options.out, "file to write")->required();
  verb->callback([arguments, &run] { run = [arguments] { return trace(*arguments); }; });
}

}  // namespace tandem::ops
