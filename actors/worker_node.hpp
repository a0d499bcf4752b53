// The worker node: the actor side of a process that runs one rank for a head elsewhere.
//
// It connects to the head's supervisor, says hello, runs the rank it is assigned, and says hello again when that
// generation is over. A head that refuses it ends the node (exit code 2); a head that stays away for `head_timeout`
// does too (12), and so does an end of this actor that was not ordered (1).
#pragma once

#include "actors/handles.hpp"
#include "actors/node_options.hpp"

namespace tandem::actors {

struct WorkerNodeOptions {
  int rank = 1;
  std::chrono::milliseconds head_timeout{30'000};
  std::chrono::milliseconds retry_delay{500};
  NodeOptions node;  // engine, fabric_host, rendezvous_port, build_id, config_hash, collective_timeout, on_fatal
};

// Answers (start), (drain), (inspect) and the head's (reset, run id).
caf::actor spawn_worker_node(caf::actor_system& system, WorkerNodeOptions options);

}  // namespace tandem::actors
