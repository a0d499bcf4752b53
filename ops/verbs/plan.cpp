// `tandem plan`: what one rank of a deployment will hold, from headers alone, and whether it fits this machine's memory
// or the one that is stated. Nothing is loaded and nothing is created.
#include <fmt/format.h>

#include <charconv>
#include <iostream>
#include <memory>
#include <thread>

#include <boost/json/serialize.hpp>

#include "actors/memory_guard.hpp"
#include "gpu/plan/plan_report.hpp"
#include "ops/deployment.hpp"
#include "ops/verb.hpp"

namespace tandem::ops {

namespace {

constexpr std::uint64_t kv_bytes_max = std::uint64_t{1} << 50;  // beyond any machine, and no sum of it overflows

struct Arguments {
  DeploymentFlags deployment;
  std::uint64_t kv_bytes = 0;  // 0 = by --kv-tokens
  int ranks_here = 1;
  std::string available = "auto";
  bool json = false;
};

int fail(const Error& error, int exit_code) {
  std::cerr << "tandem plan: " << error.message() << '\n';
  return exit_code;
}

// "auto" is what the kernel says now; else bytes, or a number with KiB, MiB or GiB.
Result<std::uint64_t> available_bytes(const std::string& text) {
  if (text == "auto") {
    const auto sample = actors::sample_memory({});
    if (!sample) return sample.error();
    return sample->available_bytes;
  }
  double number = 0;
  const auto [end, fault] = std::from_chars(text.data(), text.data() + text.size(), number);
  const std::string_view unit(end, static_cast<std::size_t>(text.data() + text.size() - end));
  const double factor = unit.empty()    ? 1.0
                        : unit == "KiB" ? 1024.0
                        : unit == "MiB" ? 1024.0 * 1024
                        : unit == "GiB" ? 1024.0 * 1024 * 1024
                                        : 0.0;
  constexpr double most = 9e18;
  if (fault == std::errc{} && factor > 0 && number > 0 && number * factor < most)
    return static_cast<std::uint64_t>(number * factor);
  return Error{ErrorCode::invalid_argument, "--mem-available", "'" + text + "'",
               "auto, bytes, or a number of KiB, MiB or GiB"};
}

Result<gpu::PlanRequest> make_request(const Arguments& arguments, const Settings& settings) {
  gpu::PlanRequest request;
  request.model = settings.text("model.dir");
  if (request.model.empty())
    return Error{ErrorCode::invalid_argument, "model.dir", "no model folder",
                 "--model DIR or model.dir=DIR in --config"};
  request.backend = settings.text("model.backend");
  request.numerics = settings.text("model.numerics");
  request.ranks = static_cast<int>(settings.integer("ranks"));
  request.ranks_here = arguments.ranks_here;
  const int threads = static_cast<int>(settings.integer("threads"));
  const int cores = std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
  request.threads = threads > 0 ? threads : std::max(1, cores / request.ranks_here);
  request.step.context = settings.integer("context.max");
  request.step.lanes = static_cast<int>(settings.integer("lanes.max"));
  request.step.prefill_rows = static_cast<int>(settings.integer("prefill.rows"));
  request.step.step_rows = static_cast<int>(settings.integer("step.rows"));
  request.step.drafts = static_cast<int>(settings.integer("draft.tokens"));
  request.draft = request.step.drafts > 0;
  request.kv_tokens = settings.integer("kv.tokens");
  request.kv_bytes = arguments.kv_bytes;
  request.engram.io_depth = static_cast<int>(settings.integer("engram.io_depth"));
  request.engram.cache_gib = static_cast<double>(settings.integer("engram.cache_gib"));
  request.margin_bytes = static_cast<std::uint64_t>(settings.integer("memory.critical_mib")) << 20;
  const auto available = available_bytes(arguments.available);
  if (!available) return available.error();
  request.available_bytes = *available;
  return request;
}

int plan(const Arguments& arguments) {
  const auto settings = Settings::resolve(arguments.deployment.given, arguments.deployment.config);
  if (!settings) return fail(settings.error(), exit_usage);
  const auto request = make_request(arguments, *settings);
  if (!request) return fail(request.error(), exit_usage);
  const auto made = gpu::plan_memory(*request);
  if (!made) return fail(made.error(), made.error().code == ErrorCode::invalid_argument ? exit_usage : exit_load_error);
  if (arguments.json) {
    std::cout << boost::json::serialize(gpu::to_json(*made)) << '\n';
  } else {
    std::cout << gpu::to_text(*made);
  }
  if (made->fits()) return exit_done;
  if (arguments.json) std::cerr << "tandem plan: " << gpu::plan_verdict(*made) << '\n';
  return exit_usage;
}

}  // namespace

void add_plan(CLI::App& app, Run& run) {
  auto arguments = std::make_shared<Arguments>();
  CLI::App* verb = app.add_subcommand("plan", "what a rank of a deployment will hold in memory, from headers alone");
  add_deployment_flags(*verb, arguments->deployment);
  verb->add_option("--kv-bytes", arguments->kv_bytes, "size of the caches, instead of --kv-tokens")
      ->check(CLI::Range(std::uint64_t{1}, kv_bytes_max));
  verb->add_option("--ranks-here", arguments->ranks_here, "ranks that share the memory of one machine")
      ->check(CLI::Range(1, 64))
      ->capture_default_str();
  verb->add_option("--mem-available", arguments->available,
                   "memory of one machine: bytes, a number of KiB, MiB or GiB, or auto: what this one has now")
      ->capture_default_str();
  verb->add_flag("--json", arguments->json, "one JSON object, sizes in bytes, with all files");
  verb->callback([arguments, &run] { run = [arguments] { return plan(*arguments); }; });
}

}  // namespace tandem::ops
