// JSON member by member, in the order that clients were tested with.
#include "net/http/chat_writer.hpp"

#include "net/http/request_id.hpp"
#include "net/text/json/write.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace tandem::net::http {
namespace {

using text::Event;
using text::EventKind;

constexpr std::size_t arguments_piece_bytes = 4096;

std::string json_string(std::string_view value) {
  std::string out;
  text::write_json_string(out, value);
  return out;
}

// Returns the longest prefix of at most `limit` bytes that does not end inside a character.
std::string_view piece_of(std::string_view text, std::size_t limit) {
  if (text.size() <= limit) return text;
  while (limit > 0 && (static_cast<unsigned char>(text[limit]) & 0xC0) == 0x80) --limit;
  return text.substr(0, limit);
}

// Joins neighbours of the same kind; a long arguments text is cut into pieces.
text::Events merged(const text::Events& events) {
  text::Events out;
  for (const Event& event : events) {
    const bool is_text = event.kind == EventKind::reasoning || event.kind == EventKind::content;
    if (is_text && !out.empty() && out.back().kind == event.kind) {
      out.back().text += event.text;
      continue;
    }
    if (event.kind != EventKind::call_args) {
      out.push_back(event);
      continue;
    }
    for (std::string_view rest = event.text; !rest.empty();) {
      const std::string_view piece = piece_of(rest, arguments_piece_bytes);
      out.push_back({event.kind, std::string(piece), event.index, event.reason});
      rest.remove_prefix(piece.size());
    }
  }
  return out;
}

void add_usage(JsonWriter& json, const ChatUsage& usage) {
  json.begin_object().key("prompt_tokens").integer(usage.prompt_tokens);
  json.key("completion_tokens").integer(usage.completion_tokens);
  json.key("total_tokens").integer(std::uint64_t{usage.prompt_tokens} + usage.completion_tokens);
  json.key("prompt_tokens_details").begin_object().key("cached_tokens").integer(usage.cached_tokens).end_object();
  json.key("completion_tokens_details")
      .begin_object()
      .key("reasoning_tokens")
      .integer(usage.reasoning_tokens)
      .end_object();
  json.end_object();
}

void add_logprobs(JsonWriter& json, std::string_view entries) {
  json.key("logprobs").begin_object().key("content").begin_array();
  if (!entries.empty()) json.literal(entries);
  json.end_array().key("refusal").null().end_object();
}

std::string event(const JsonWriter& json) {
  return fmt::format("data: {}\n\n", json.text());
}

}  // namespace

void ChatMessage::add(const Event& event) {
  switch (event.kind) {
    case EventKind::reasoning:
      reasoning += event.text;
      break;
    case EventKind::content:
      content += event.text;
      break;
    case EventKind::call_begin:
      calls.push_back({new_random_id("call_"), event.text, ""});
      break;
    case EventKind::call_args:
      calls.back().arguments += event.text;
      break;
    case EventKind::call_end:
      break;
    case EventKind::finish:
      reason = event.reason;
      break;
  }
}

void ChatWriter::begin(JsonWriter& json, std::string_view object) const {
  json.begin_object().key("id").string(frame_.id).key("object").string(object).key("created").integer(frame_.created);
  json.key("model").string(frame_.model).key("system_fingerprint").string(frame_.fingerprint);
}

void ChatWriter::add_chunk(std::string& out, const Chunk& chunk, const ChatUsage& usage) const {
  JsonWriter json;
  begin(json, "chat.completion.chunk");
  json.key("choices").begin_array().begin_object().key("index").integer(chunk.choice);
  json.key("delta").literal(fmt::format("{{{}}}", chunk.delta));
  if (chunk.logprobs.empty())
    json.key("logprobs").null();
  else
    add_logprobs(json, chunk.logprobs);
  json.key("finish_reason").string_or_null(chunk.finish).end_object().end_array();
  if (frame_.includes_usage_always)
    add_usage(json.key("usage"), usage);
  else if (frame_.includes_usage)
    json.key("usage").null();
  json.end_object();
  out += event(json);
}

std::string ChatWriter::role_chunk(std::size_t choice, const ChatUsage& usage) const {
  std::string out;
  add_chunk(out, {choice, R"("role":"assistant","content":"")"}, usage);
  return out;
}

// The members of the delta object that says what happened; empty: nothing to say.
std::string ChatWriter::delta_of(const Event& event) const {
  const std::string text = json_string(event.text);
  switch (event.kind) {
    case EventKind::content:
      return fmt::format(R"("content":{})", text);
    case EventKind::reasoning:
      if (frame_.hides_reasoning) return {};
      if (frame_.reasoning_field == ReasoningField::reasoning) return fmt::format(R"("reasoning":{})", text);
      if (frame_.reasoning_field == ReasoningField::both)
        return fmt::format(R"("reasoning_content":{},"reasoning":{})", text, text);
      return fmt::format(R"("reasoning_content":{})", text);
    case EventKind::call_begin:
      return fmt::format(
          R"("tool_calls":[{{"index":{},"id":"{}","type":"function","function":{{"name":{},"arguments":""}}}}])",
          event.index, new_random_id("call_"), text);
    case EventKind::call_args:
      return fmt::format(R"("tool_calls":[{{"index":{},"function":{{"arguments":{}}}}}])", event.index, text);
    case EventKind::call_end:
    case EventKind::finish:
      break;
  }
  return {};
}

std::string ChatWriter::event_chunks(std::size_t choice, const text::Events& events, std::string& logprobs,
                                     const ChatUsage& usage) const {
  std::string out;
  for (const Event& event : merged(events)) {
    const std::string delta = delta_of(event);
    const bool is_finish = event.kind == EventKind::finish;
    if (delta.empty() && !is_finish) continue;
    add_chunk(out, {choice, delta, logprobs, is_finish ? text::to_string(event.reason) : ""}, usage);
    logprobs.clear();
  }
  return out;
}

std::string ChatWriter::last_events(const ChatUsage& usage) const {
  std::string out;
  if (frame_.includes_usage || frame_.includes_usage_always) {
    JsonWriter json;
    begin(json, "chat.completion.chunk");
    json.key("choices").begin_array().end_array();
    add_usage(json.key("usage"), usage);
    json.end_object();
    out += event(json);
  }
  out += "data: [DONE]\n\n";
  return out;
}

void ChatWriter::add_message(JsonWriter& json, const ChatMessage& message) const {
  json.key("message").begin_object().key("role").string("assistant").key("content");
  if (message.content.empty() && !message.calls.empty())
    json.null();
  else
    json.string(message.content);
  if (!message.reasoning.empty() && !frame_.hides_reasoning) {
    if (frame_.reasoning_field != ReasoningField::reasoning) json.key("reasoning_content").string(message.reasoning);
    if (frame_.reasoning_field != ReasoningField::reasoning_content) json.key("reasoning").string(message.reasoning);
  }
  json.key("refusal").null().key("annotations").begin_array().end_array();
  if (!message.calls.empty()) {
    json.key("tool_calls").begin_array();
    for (const ChatMessage::Call& call : message.calls) {
      json.begin_object().key("id").string(call.id).key("type").string("function").key("function").begin_object();
      json.key("name").string(call.name).key("arguments").string(call.arguments).end_object().end_object();
    }
    json.end_array();
  }
  json.end_object();
}

std::string ChatWriter::body(const std::vector<ChatMessage>& choices, const ChatUsage& usage) const {
  JsonWriter json;
  begin(json, "chat.completion");
  json.key("choices").begin_array();
  for (std::size_t index = 0; index < choices.size(); ++index) {
    json.begin_object().key("index").integer(index);
    add_message(json, choices[index]);
    if (has_logprobs_)
      add_logprobs(json, choices[index].logprobs);
    else
      json.key("logprobs").null();
    json.key("finish_reason").string(text::to_string(choices[index].reason)).end_object();
  }
  json.end_array();
  add_usage(json.key("usage"), usage);
  json.end_object();
  return json.take();
}

}  // namespace tandem::net::http
