// The request actor: one client request from submit to its last token. It sees token ids only.
//
// It owns the request's limits (context, max_tokens, stop ids), its sink and its end: it tells the scheduler after each
// batch whether the request is finished, and tells the sink exactly once how it ended.
#pragma once

#include "actors/handles.hpp"

namespace tandem::actors {

// Returns why a request can never run on this engine, or nothing. `request` must not be empty, over-long or out of
// vocabulary.
std::optional<Rejection> check_request(const GenerationRequest& request, const gpu::EngineInfo& info);

// Returns max_tokens clamped to what fits behind the prompt.
std::uint32_t clamp_max_tokens(const GenerationRequest& request, const gpu::EngineInfo& info);

// `board` outlives the actor system.
request_actor spawn_request(caf::local_actor* parent, scheduler_actor scheduler, NewRequest request,
                            SnapshotBoard* board);

}  // namespace tandem::actors
