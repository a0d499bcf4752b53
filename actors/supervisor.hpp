// The node supervisor of the head: builds the rank group, watches it, rebuilds it when a rank is lost.
//
// With threads it spawns every rank worker itself. With tcp it spawns rank 0 and waits for the other ranks' nodes to
// say hello; they get an Assignment with a fresh run id and connect their communicators to rank 0. A rank that fails
// before the first READY ends the node (on_fatal with the rank's exit code); later failures stop the whole group, tell
// the scheduler, and start over.
//
// Whatever else ends this actor than (drain) ends the node too: its state stops the local ranks, tells the scheduler
// that they are gone, and calls on_fatal with exit code 1.
#pragma once

#include "actors/handles.hpp"
#include "actors/node_options.hpp"

namespace tandem::actors {

// Answers (start), (rank_state, RankState, worker), (ranks_down, run id, reason), (lost, reason): the recovery window
// passed, (hello, Hello, node) -> Assignment, (drain): it quits when its rank workers have ended, (inspect). `board`
// outlives the actor system.
caf::actor spawn_supervisor(caf::actor_system& system, NodeOptions options, SnapshotBoard* board);

// Gives the supervisor the scheduler that is told about the ranks; sent once, before (start).
void introduce_scheduler(const caf::actor& supervisor, const scheduler_actor& scheduler);

// Names an actor whose end is the node's: requests would wait for it for ever. on_fatal hears of it, with exit code 1.
void introduce_vital(const caf::actor& supervisor, const std::string& name, const caf::actor& actor);

}  // namespace tandem::actors
