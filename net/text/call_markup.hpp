// The calls of an assistant message as the model writes them:
//
//   \n\n<｜DSML｜ calls>\n
//   <｜DSML｜ invoke name="NAME">\n
//   <｜DSML｜ parameter name="KEY" string="true|false">VALUE</｜DSML｜ parameter>\n     one each parameter
//   </｜DSML｜ invoke>\n
//   </｜DSML｜ calls>
//
// Nothing is escaped: ｜DSML｜ is a token, and a value cannot contain that token, whatever it spells.
#pragma once

#include "net/text/messages.hpp"
#include "net/text/segments.hpp"
#include "net/text/tools.hpp"

#include <vector>

namespace tandem::net::text {

void write_calls(SegmentList& out, const std::vector<ToolCall>& calls);

// Writes the beginning of a call block, for an answer that must hold a call: up to the name, or, where `only` is the
// one tool that may be called, up to its parameters.
void write_call_opening(SegmentList& out, const Tool* only);

// Returns the parameters of a call. Arguments that are no object, also after decoding a string twice, become one
// parameter named "arguments"; absent, null and "" are no parameters. Never an error: a spoiled history must stay
// usable.
JsonObject call_parameters(const Json& arguments);

}  // namespace tandem::net::text
