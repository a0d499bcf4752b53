// `tandem worker`: another rank of a deployment, in its own process, on this machine or on the other one.
#include <spdlog/spdlog.h>

#include <memory>

#include "actors/node.hpp"
#include "ops/deployment.hpp"
#include "ops/fabric_environment.hpp"
#include "ops/process_signals.hpp"
#include "ops/verb.hpp"

namespace tandem::ops {

namespace {

int work(const DeploymentFlags& flags, int rank) {
  ProcessSignals signals;
  auto settings = Settings::resolve(flags.given, flags.config);
  if (!settings) {
    spdlog::error("{}", settings.error().message());
    return exit_usage;
  }
  if (settings->text("transport") != "tcp") {
    spdlog::error("transport: {}, expected tcp: ranks as threads need no worker", settings->text("transport"));
    return exit_usage;
  }
  if (rank >= settings->integer("ranks")) {
    spdlog::error("--rank: {}, expected 1 to {}", rank, settings->integer("ranks") - 1);
    return exit_usage;
  }
  if (auto prepared = prepare_fabric(*settings, rank); !prepared) {
    spdlog::error("{}", prepared.error().message());
    return exit_usage;
  }
  actors::WorkerNodeOptions options;
  auto node = node_options(*settings);
  if (!node) {
    spdlog::error("{}", node.error().message());
    return exit_usage;
  }
  options.rank = rank;
  options.node = std::move(*node);
  options.node.on_fatal = [&signals](int exit_code, const std::string& reason) { signals.post({exit_code, reason}); };
  auto worker = actors::start_worker(std::move(options));
  if (!worker) {
    spdlog::error("{}", worker.error().message());
    return exit_failed;
  }
  spdlog::info("rank {} looks for its head at {}:{}", rank, settings->text("fabric.host"),
               settings->integer("rdv.port") + 1);
  const auto event = signals.wait();
  if (event) spdlog::error("{}", event->reason);
  (*worker)->stop();
  return event ? event->exit_code : exit_done;
}

struct Arguments {
  DeploymentFlags flags;
  int rank = 1;
};

}  // namespace

void add_worker(CLI::App& app, Run& run) {
  auto arguments = std::make_shared<Arguments>();
  CLI::App* verb = app.add_subcommand("worker", "run another rank of a deployment");
  add_deployment_flags(*verb, arguments->flags);
  verb->add_option("--rank", arguments->rank, "this rank's number")->required()->check(CLI::Range(1, 63));
  verb->callback([arguments, &run] { run = [arguments] { return work(arguments->flags, arguments->rank); }; });
}

}  // namespace tandem::ops
