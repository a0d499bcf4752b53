// The text is that of DeepSeek-V4.1's published encoder, to the letter: the model was trained on it. Unlike everything
// a client writes it does contain markup, so it is cut at its markers here and nowhere else.
#include "net/text/tools_block.hpp"

#include "net/text/json/write.hpp"

#include <algorithm>
#include <array>

namespace tandem::net::text {
namespace {

constexpr std::string_view introduction =
    R"(

## Tools

You have access to a set of tools to help answer the user's question. You can invoke tools by writing a "<｜DSML｜ calls>" block like the following:

<｜DSML｜ calls>
<｜DSML｜ invoke name="$TOOL_NAME">
<｜DSML｜ parameter name="$PARAMETER_NAME" string="true|false">$PARAMETER_VALUE</｜DSML｜ parameter>
...
</｜DSML｜ invoke>
<｜DSML｜ invoke name="$TOOL_NAME2">
...
</｜DSML｜ invoke>
</｜DSML｜ calls>

String parameters should be specified as is and set `string="true"`. For all other types (numbers, booleans, arrays, objects), pass the value in JSON format and set `string="false"`.

If thinking_mode is enabled (triggered by <think>), you MUST output your complete reasoning inside <think>...</think> BEFORE any tool calls or final response.

Otherwise, output directly after </think> with tool calls or final response.

### Available Tool Schemas

)";

constexpr std::string_view conclusion =
    "\nYou MUST strictly follow the above defined tool name and parameter schemas to invoke tool calls.\n";

constexpr std::array<Markup, 3> markers = {Markup::dsml, Markup::think_open, Markup::think_close};

// Writes our own text, turning the markers that it spells into markup.
void write_marked(SegmentList& out, std::string_view text) {
  while (!text.empty()) {
    std::size_t at = text.size();
    Markup first = Markup::dsml;
    for (const Markup marker : markers) {
      const std::size_t found = std::min(text.find(markup_text(marker)), text.size());
      if (found < at) {
        at = found;
        first = marker;
      }
    }
    out.text(text.substr(0, at));
    if (at == text.size()) return;
    out.markup(first);
    text.remove_prefix(at + markup_text(first).size());
  }
}

}  // namespace

void write_tools_block(SegmentList& out, const std::vector<Tool>& tools) {
  if (tools.empty()) return;
  write_marked(out, introduction);
  for (const Tool& tool : tools) {
    out.text(write_json(tool.function));
    out.text("\n");
  }
  out.text(conclusion);
}

}  // namespace tandem::net::text
