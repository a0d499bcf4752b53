// From settings to what the libraries take: one place that knows both.
#pragma once

#include <CLI/CLI.hpp>

#include "actors/worker_node.hpp"
#include "net/http/options.hpp"
#include "ops/setting_table.hpp"

namespace tandem::ops {

// Adds --config and one flag for each setting that `serve` and `worker` share; given values land in `flags` under the
// setting's key.
struct DeploymentFlags {
  std::string config;
  std::map<std::string, std::string> given;
};
void add_deployment_flags(CLI::App& verb, DeploymentFlags& flags);

Result<actors::NodeOptions> node_options(const Settings& settings);

// Keys are read from (or made in) `key_file` when one is set or when the listener is not loopback.
Result<net::http::ServerOptions> server_options(const Settings& settings);

// Returns state.dir, else $XDG_STATE_HOME/tandem, else as root /var/lib/tandem, else ~/.local/state/tandem; creates it
// (0700).
Result<std::filesystem::path> state_folder(const Settings& settings);

// Names this deployment in locks and handshakes: model folder and decisive settings, hashed.
std::string deployment_identity(const Settings& settings);

// Identifies the build and what must agree between processes.
std::string build_id();

}  // namespace tandem::ops
