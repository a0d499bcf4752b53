// The reception: spawns one request actor per request and finds it again when it is to be cancelled.
#pragma once

#include "actors/handles.hpp"

namespace tandem::actors {

reception_actor spawn_reception(caf::actor_system& system, scheduler_actor scheduler, SnapshotBoard* board);

}  // namespace tandem::actors
