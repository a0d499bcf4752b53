// A MemoryPlan for people and for programs.
#pragma once

#include <boost/json/object.hpp>
#include <string>

#include "gpu/plan/memory_plan.hpp"

namespace tandem::gpu {

// Returns the plan as a table of GiB, its verdict last.
std::string to_text(const MemoryPlan& plan);

// Returns the plan with all sizes in bytes: {"model", "layout", "ranks", "context", "largest_context", "fits", "parts":
// {"weights": {"total", "lines": {..}}, ..}, "rank_bytes", "machine_bytes", "available_bytes", "left_bytes", "files"}.
boost::json::object to_json(const MemoryPlan& plan);

// Returns one sentence: whether it fits, and what would if it does not.
std::string plan_verdict(const MemoryPlan& plan);

}  // namespace tandem::gpu
