// The part of the system turn that teaches the model its tools: how a call is written, one schema a line, a closing
// sentence.
#pragma once

#include "net/text/segments.hpp"
#include "net/text/tools.hpp"

#include <vector>

namespace tandem::net::text {

// Appends the block with its leading blank line; nothing if there are no tools.
void write_tools_block(SegmentList& out, const std::vector<Tool>& tools);

}  // namespace tandem::net::text
