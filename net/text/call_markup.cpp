// Writing of calls; output_parser.hpp reads them back.
#include "net/text/call_markup.hpp"

#include "net/text/json/parse.hpp"
#include "net/text/json/write.hpp"

namespace tandem::net::text {
namespace {

// The tag names begin with a space.
void open_tag(SegmentList& out, std::string_view rest) {
  out.text("<");
  out.markup(Markup::dsml);
  out.text(rest);
}

void close_tag(SegmentList& out, std::string_view rest) {
  out.text("</");
  out.markup(Markup::dsml);
  out.text(rest);
}

void write_parameter(SegmentList& out, const JsonMember& parameter) {
  const std::string* text = parameter.value.if_string();
  open_tag(out, " parameter name=\"");
  out.text(parameter.key);
  out.text(text != nullptr ? "\" string=\"true\">" : "\" string=\"false\">");
  out.text(text != nullptr ? *text : write_json(parameter.value));
  close_tag(out, " parameter>");
}

void write_invoke(SegmentList& out, const ToolCall& call) {
  open_tag(out, " invoke name=\"");
  out.text(call.name);
  out.text("\">\n");
  const JsonObject parameters = call_parameters(call.arguments);
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    if (i > 0) out.text("\n");
    write_parameter(out, parameters[i]);
  }
  out.text("\n");
  close_tag(out, " invoke>");
}

bool takes_parameters(const Tool& tool) {
  const Json* schema = tool.parameters();
  const Json* properties = schema != nullptr ? schema->find_given("properties") : nullptr;
  return properties != nullptr && properties->if_object() != nullptr && !properties->if_object()->empty();
}

}  // namespace

void write_calls(SegmentList& out, const std::vector<ToolCall>& calls) {
  if (calls.empty()) return;
  out.text("\n\n");
  open_tag(out, " calls>\n");
  for (std::size_t i = 0; i < calls.size(); ++i) {
    if (i > 0) out.text("\n");
    write_invoke(out, calls[i]);
  }
  out.text("\n");
  close_tag(out, " calls>");
}

void write_call_opening(SegmentList& out, const Tool* only) {
  out.text("\n\n");
  open_tag(out, " calls>\n");
  open_tag(out, " invoke name=\"");
  if (only == nullptr) return;
  out.text(only->name);
  // A call without parameters holds one empty line.
  out.text(takes_parameters(*only) ? "\">\n" : "\">\n\n");
}

JsonObject call_parameters(const Json& arguments) {
  if (arguments.is_null()) return {};
  if (const JsonObject* object = arguments.if_object()) return *object;
  const std::string* text = arguments.if_string();
  if (text != nullptr && text->empty()) return {};
  // Some clients encode the arguments twice.
  Json decoded = arguments;
  for (int round = 0; round < 2 && decoded.if_string() != nullptr; ++round) {
    auto inner = parse_json(*decoded.if_string());
    if (!inner) break;
    decoded = std::move(*inner);
    if (const JsonObject* object = decoded.if_object()) return *object;
  }
  return {{"arguments", arguments}};
}

}  // namespace tandem::net::text
