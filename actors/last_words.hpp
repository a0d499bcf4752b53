// Why an actor ended, in words that a log line can end with.
#pragma once

#include <caf/all.hpp>
#include <string>

namespace tandem::actors {

// For set_exception_handler(): the exception's text becomes the reason of the actor's end. CAF's own handler prints it
// and leaves "runtime_error" to whoever watches the actor.
caf::error keep_exception(caf::scheduled_actor* self, std::exception_ptr& thrown);

// Returns "the NAME actor ended: REASON". For destructors of states, which run once the reason is known.
std::string describe_end(const caf::local_actor& self);

}  // namespace tandem::actors
