// The node's state as JSON: /health in one line, /status in full.
#pragma once

#include "actors/runtime_snapshot.hpp"

#include <string>

namespace tandem::net::http {

// Returns {"status":"ok"} when ready, else {"status":"loading"|"draining"|"failed","phase":...}.
std::string health_json(const actors::RuntimeSnapshot& snapshot);

// Returns state, ranks, engine, load, counters and memory.
std::string status_json(const actors::RuntimeSnapshot& snapshot);

}  // namespace tandem::net::http
