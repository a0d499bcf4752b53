// Node: the actors of one process, put together. The executable starts one, serves HTTP through its FrontDoor, and
// stops it.
#pragma once

#include <memory>

#include "actors/front_door.hpp"
#include "actors/worker_node.hpp"

namespace tandem::actors {

// The head: front door, scheduler, planners, memory guard, supervisor and its local ranks.
class HeadNode {
 public:
  virtual ~HeadNode() = default;  // stops everything that stop() did not
  virtual FrontDoor& front_door() = 0;
  // Refuses new requests, lets running ones finish until `deadline`, then ends them and the ranks. Blocking; call once.
  virtual void stop(std::chrono::milliseconds deadline) = 0;
};

// Starts the actors; loading goes on in the background and is told by on_ready or on_fatal. Errors: io (CAF's port is
// taken).
Result<std::unique_ptr<HeadNode>> start_head(NodeOptions options);

// Another rank's process.
class WorkerProcess {
 public:
  virtual ~WorkerProcess() = default;
  virtual void stop() = 0;  // blocking
};

Result<std::unique_ptr<WorkerProcess>> start_worker(WorkerNodeOptions options);

}  // namespace tandem::actors
