// Model objects as OpenAI lists them, with vLLM's and our extras.
#include "net/http/models_route.hpp"

#include "net/http/error_body.hpp"
#include "net/http/json_writer.hpp"
#include "net/text/utf8.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace tandem::net::http {
namespace {

void add_model(JsonWriter& json, const ApiContext& context, const gpu::EngineInfo& engine, std::string_view id) {
  json.begin_object().key("id").string(id).key("object").string("model").key("created").integer(context.started);
  json.key("owned_by").string("tandem").key("root").string(engine.model_name.empty() ? id : engine.model_name);
  json.key("parent")
      .null()
      .key("max_model_len")
      .integer(engine.max_positions)
      .key("permission")
      .begin_array()
      .end_array();
  json.key("context_length").integer(engine.max_positions);
  json.key("input_modalities").begin_array().string("text").end_array();
  json.key("reasoning_efforts").begin_array().string("none");
  for (const text::EffortWord& effort : context.options.chat.reasoning.efforts) json.string(effort.word);
  json.end_array().end_object();
}

Response json_response(JsonWriter json) {
  Response response;
  response.body = json.take();
  return response;
}

}  // namespace

Response list_models(const ApiContext& context) {
  const gpu::EngineInfo engine = context.door.snapshot().engine;
  JsonWriter json;
  json.begin_object().key("object").string("list").key("data").begin_array();
  for (const std::string& name : context.options.model_names) add_model(json, context, engine, name);
  json.end_array().end_object();
  return json_response(std::move(json));
}

Response show_model(const ApiContext& context, std::string_view id) {
  if (!context.serves(id)) return model_not_found(context, id);
  JsonWriter json;
  add_model(json, context, context.door.snapshot().engine, id);
  return json_response(std::move(json));
}

Response model_not_found(const ApiContext& context, std::string_view id) {
  return error_response({404,
                         fmt::format("The model `{}` does not exist. This server has: {}.",
                                     text::is_valid_utf8(id) ? id : "?", fmt::join(context.options.model_names, ", ")),
                         "model", "model_not_found", 0});
}

}  // namespace tandem::net::http
