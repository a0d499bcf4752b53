// NodeOptions: everything a node's actors need to know, filled in by the executable from its configuration.
#pragma once

#include <functional>
#include <string>

#include "actors/decode_actor.hpp"
#include "actors/memory_guard.hpp"
#include "actors/scheduler_actor.hpp"
#include "gpu/engine.hpp"

namespace tandem::actors {

enum class Transport : std::uint8_t {
  threads,  // every rank is a thread of this process
  tcp,      // every rank is a process: control over CAF, tensors over TCP
};

struct NodeOptions {
  gpu::EngineOptions engine;
  int ranks = 1;
  Transport transport = Transport::threads;
  std::string fabric_host = "127.0.0.1";  // tcp: the head's address for its peers; loopback or fabric only
  std::uint16_t rendezvous_port = 0;      // tcp: the communicator; CAF listens on the next one
  std::string build_id;
  std::string config_hash;
  std::string settings;  // what config_hash is of, KEY=VALUE lines
  SchedulerOptions scheduler;
  SpeculationPolicy speculation;
  MemoryGuardOptions memory;
  std::chrono::milliseconds collective_timeout{120'000};
  std::chrono::milliseconds restart_delay{1'000};  // before a lost rank group is built again; doubles up to 30 s
  // Called from an actor thread; must not block or throw. on_fatal: the node serves no more and has to be stopped.
  std::function<void(const gpu::EngineInfo&)> on_ready;
  std::function<void(int exit_code, const std::string& reason)> on_fatal;
  StepObserver on_step;
};

}  // namespace tandem::actors
