// `tandem serve`: the head of a deployment. Starts the actors (which load the model in the background) and the HTTP
// front end, waits for a signal, drains and stops. SIGTERM ends it with 0 within ten seconds in any state.
#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <variant>

#include "actors/node.hpp"
#include "gpu/config.hpp"
#include "net/http/server.hpp"
#include "net/text/vocabulary_check.hpp"
#include "ops/deployment.hpp"
#include "ops/fabric_environment.hpp"
#include "ops/instance_lock.hpp"
#include "ops/port_owner.hpp"
#include "ops/process_signals.hpp"
#include "ops/verb.hpp"

namespace tandem::ops {

namespace {

// One deadline for the whole stop, so that it fits the ten seconds. Running requests finish until `drain_deadline`,
// then they are told that the server is draining; connections have the rest. Those that do not end by themselves cost
// another 2.5 s (see Listener::stop()).
constexpr auto drain_deadline = std::chrono::milliseconds(5'000);
constexpr auto stop_deadline = std::chrono::milliseconds(6'500);
constexpr auto connection_patience = std::chrono::milliseconds(1'000);

int fail(int exit_code, const std::string& message) {
  spdlog::error("{}", message);
  return exit_code;
}

// Returns the lock, or the exit code for an address that is taken. "Ours" is who answers with our configuration,
// whatever state folder it uses.
std::variant<std::optional<InstanceLock>, int> claim(const Settings& settings) {
  const auto port = static_cast<std::uint16_t>(settings.integer("api.port"));
  if (port == 0) return std::optional<InstanceLock>{};
  const std::string identity = deployment_identity(settings);
  auto folder = state_folder(settings);
  if (!folder) return fail(exit_failed, folder.error().message());
  const std::string host = settings.text("api.host");
  const auto file = *folder / fmt::format("serve-{}-{}.lock", host, port);
  auto lock = InstanceLock::take(file, identity);
  if (!lock) return fail(exit_failed, lock.error().message());
  if (ask_configuration(host, port) == identity)
    return fail(exit_already_running, fmt::format("this configuration already runs and answers at port {}", port));
  if (*lock) return std::move(*lock);
  if (InstanceLock::read_identity(file) == identity)
    return fail(exit_already_running,
                fmt::format("this configuration is starting at http://{}:{}, or does not answer", host, port));
  return fail(exit_failed,
              fmt::format("{}:{} is held by another Tandem configuration: {}", host, port, describe_port_owner(port)));
}

// The ranks' ports are promises to other processes: one that is taken ends the start with its owner's name, not a
// rank's.
std::optional<std::string> describe_taken_port(const actors::NodeOptions& node) {
  if (node.transport != actors::Transport::tcp) return std::nullopt;
  for (const int offset : {0, 1}) {
    const auto port = static_cast<std::uint16_t>(node.rendezvous_port + offset);
    if (is_port_free(node.fabric_host, port)) continue;
    return fmt::format("rdv.port: {}:{} is held by {}", node.fabric_host, port, describe_port_owner(port));
  }
  return std::nullopt;
}

struct Server {
  std::unique_ptr<actors::HeadNode> node;
  std::unique_ptr<net::http::HttpServer> http;
};

// Order matters on the way down: streams hear the scheduler's last words through the HTTP server, so the node stops
// first.
void stop(Server& server) {
  const auto end = std::chrono::steady_clock::now() + stop_deadline;
  if (server.node) server.node->stop(drain_deadline);
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(end - std::chrono::steady_clock::now());
  if (server.http) server.http->stop(std::clamp(left, std::chrono::milliseconds(0), connection_patience));
  server.http.reset();
  server.node.reset();
}

std::string describe_drafts(const gpu::EngineInfo& info, const actors::SpeculationPolicy& policy) {
  const std::uint32_t drafts = std::min(policy.drafts, static_cast<std::uint32_t>(info.drafts_max));
  if (drafts == 0 || policy.lanes_max == 0) return "no drafts";
  return fmt::format("{} drafts a step for up to {} lanes", drafts, policy.lanes_max);
}

void log_ready(const gpu::EngineInfo& info, const actors::SpeculationPolicy& policy) {
  spdlog::info("ready: model {} with {} layers, context {} tokens, {} lanes, {}, weights {:.1f} MiB, caches {:.1f} MiB",
               info.model_name, info.layers, info.max_positions, info.lanes_max, describe_drafts(info, policy),
               static_cast<double>(info.weight_bytes) / (1 << 20), static_cast<double>(info.cache_bytes) / (1 << 20));
}

Result<Server> start(const Settings& settings, ProcessSignals& signals, const net::text::Tokenizer& tokenizer) {
  auto node_settings = node_options(settings);
  if (!node_settings) return node_settings.error();
  auto http_settings = server_options(settings);
  if (!http_settings) return http_settings.error();
  if (const auto taken = describe_taken_port(*node_settings))
    return Error{ErrorCode::io, *taken, "the port is taken", "rdv.port and the next one free"};
  node_settings->on_ready = [policy = node_settings->speculation](const gpu::EngineInfo& info) {
    log_ready(info, policy);
  };
  node_settings->on_fatal = [&signals](int exit_code, const std::string& reason) { signals.post({exit_code, reason}); };
  Server server;
  auto node = actors::start_head(std::move(*node_settings));
  if (!node) return node.error();
  server.node = std::move(*node);
  server.http =
      std::make_unique<net::http::HttpServer>(server.node->front_door(), tokenizer, std::move(*http_settings));
  auto port = server.http->start();
  if (!port) {
    stop(server);
    return port.error();
  }
  const std::string host = settings.text("api.host");
  spdlog::info("listening on http://{}:{} (at most {} connections)",
               host.find(':') == std::string::npos ? host : "[" + host + "]", *port, server.http->connections_max());
  return server;
}

int exit_code_of(const Error& error) {
  return error.code == ErrorCode::bad_config ? exit_usage : exit_failed;
}

std::string explain(const Error& error, const Settings& settings) {
  if (error.code != ErrorCode::unavailable) return error.message();
  const auto port = static_cast<std::uint16_t>(settings.integer("api.port"));
  return fmt::format("{}: the port is held by {}", error.message(), describe_port_owner(port));
}

Result<void> check_tokenizer(const Settings& settings, const net::text::Tokenizer& tokenizer) {
  const std::filesystem::path folder = settings.text("model.dir");
  const auto config = gpu::ModelConfig::load(folder);
  if (!config) return config.error();
  const auto id = [](int token) { return static_cast<net::text::TokenId>(token); };
  return net::text::check_vocabulary(
      tokenizer,
      {static_cast<std::size_t>(config->vocab_size), id(config->bos_id), id(config->eos_id), id(config->pad_id)},
      folder.string());
}

int serve(const DeploymentFlags& flags) {
  ProcessSignals signals;
  auto settings = Settings::resolve(flags.given, flags.config);
  if (!settings) return fail(exit_usage, settings.error().message());
  for (const auto& note : settings->notes()) spdlog::warn("{}", note);
  if (auto prepared = prepare_fabric(*settings, 0); !prepared) return fail(exit_usage, prepared.error().message());
  auto claimed = claim(*settings);
  if (const int* exit_code = std::get_if<int>(&claimed)) return *exit_code;
  if (settings->text("model.dir").empty())
    return fail(exit_usage, "no model folder: --model DIR or model.dir=DIR in --config");
  auto tokenizer = net::text::Tokenizer::load(std::filesystem::path(settings->text("model.dir")) / "tokenizer.json");
  if (!tokenizer) return fail(exit_load_error, tokenizer.error().message());
  if (auto checked = check_tokenizer(*settings, *tokenizer); !checked)
    return fail(exit_load_error, checked.error().message());
  auto server = start(*settings, signals, *tokenizer);
  if (!server) return fail(exit_code_of(server.error()), explain(server.error(), *settings));
  const auto event = signals.wait();
  if (event)
    spdlog::error("{}", event->reason);
  else
    spdlog::info("stopping");
  stop(*server);
  return event ? event->exit_code : exit_done;
}

}  // namespace

void add_serve(CLI::App& app, Run& run) {
  auto flags = std::make_shared<DeploymentFlags>();
  CLI::App* verb =
      app.add_subcommand("serve", "serve a model over HTTP: front end, scheduler and rank 0 (all ranks if local)");
  add_deployment_flags(*verb, *flags);
  verb->callback([flags, &run] { run = [flags] { return serve(*flags); }; });
}

}  // namespace tandem::ops
