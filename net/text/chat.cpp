// Reading follows the order of the struct; encoding is messages -> turns -> segments -> ids.
#include "net/text/chat.hpp"

namespace tandem::net::text {
namespace {

RequestResult<bool> read_bool(const Json& body, const char* key, bool fallback) {
  const Json* value = body.find_given(key);
  if (value == nullptr) return RequestResult<bool>(fallback);
  if (const bool* flag = value->if_bool()) return RequestResult<bool>(*flag);
  return wrong_type(key, "a boolean", value->type_name());
}

// Continuation by the request's flag or by a flag of the last message.
RequestResult<bool> read_continuation(const Json& body, const std::vector<Message>& messages) {
  const auto is_asked = read_bool(body, "continue_final_message", false);
  if (!is_asked) return is_asked.error();
  const auto opens_turn = read_bool(body, "add_generation_prompt", true);
  if (!opens_turn) return opens_turn.error();
  const bool is_continuation = *is_asked || messages.back().is_prefix;
  if (!*opens_turn && !is_continuation) {
    return invalid_value("add_generation_prompt",
                         "add_generation_prompt can be false only with continue_final_message");
  }
  return RequestResult<bool>(is_continuation);
}

}  // namespace

RequestResult<ChatRequest> ChatRequest::from_json(const Json& body, const ChatConfig& config) {
  if (body.if_object() == nullptr) return wrong_type("body", "an object", body.type_name());
  const Json* messages_json = body.find_given("messages");
  if (messages_json == nullptr) {
    return RequestError{400, "messages", "missing_required_parameter", "messages is required"};
  }
  auto messages = read_messages(*messages_json, config.messages);
  if (!messages) return messages.error();
  auto tools = read_tools(body.find("tools"), config.tools);
  if (!tools) return tools.error();
  auto choice = read_tool_choice(body.find("tool_choice"), *tools);
  if (!choice) return choice.error();
  const auto parallel = read_bool(body, "parallel_tool_calls", true);
  if (!parallel) return parallel.error();
  const auto thinking = read_thinking(body, config.reasoning);
  if (!thinking) return thinking.error();
  auto format = read_response_format(body.find("response_format"));
  if (!format) return format.error();
  const auto continuation = read_continuation(body, *messages);
  if (!continuation) return continuation.error();
  return ChatRequest{std::move(*messages), std::move(*tools), std::move(*choice), *parallel, *thinking,
                     std::move(*format),   *continuation};
}

RequestResult<WrittenPrompt> write_chat_prompt(const ChatRequest& request) {
  if (request.messages.empty()) return invalid_value("messages", "messages must hold at least one message");
  if (request.is_continuation && request.messages.back().role != Role::assistant) {
    return invalid_value("continue_final_message", "continue_final_message needs an assistant message at the end");
  }
  const bool needs_system = !request.tools.empty() || request.format.kind == FormatKind::json_schema;
  const auto turns = make_turns(request.messages, needs_system);
  if (!turns) return turns.error();
  return write_prompt({*turns, request.tools, request.format, request.thinking, request.is_continuation});
}

RequestResult<Prompt> encode_prompt(const WrittenPrompt& written, const Tokenizer& tokenizer,
                                    const std::stop_token& stop) {
  auto ids = tokenize(written.segments, tokenizer, stop);
  if (!ids) return ids.error();
  Prompt prompt{std::move(*ids), written.start, {}};
  for (const Segment& segment : written.segments.all()) {
    if (const ImageSlot* image = std::get_if<ImageSlot>(&segment)) prompt.images.push_back(image->url);
  }
  return prompt;
}

RequestResult<Prompt> encode_prompt(const ChatRequest& request, const Tokenizer& tokenizer) {
  const auto written = write_chat_prompt(request);
  if (!written) return written.error();
  return encode_prompt(*written, tokenizer);
}

}  // namespace tandem::net::text
