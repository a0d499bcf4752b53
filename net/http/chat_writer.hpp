// ChatWriter: a chat answer on the wire, as one body or as a stream of events. Shapes only; what happens when is
// chat_route's.
//
// Stream, per choice: role chunk; reasoning and content deltas; each call as a start (id, name) and argument pieces;
// one finish chunk. Then, if asked for, one usage chunk without choices, and [DONE].
#pragma once

#include "net/http/json_writer.hpp"
#include "net/http/options.hpp"
#include "net/text/parser_events.hpp"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tandem::net::http {

struct ChatUsage {
  std::uint32_t prompt_tokens = 0;
  std::uint32_t cached_tokens = 0;
  std::uint32_t completion_tokens = 0;  // over all choices
  std::uint32_t reasoning_tokens = 0;
};

struct ChatFrame {
  std::string id;  // "chatcmpl-..."
  std::int64_t created = 0;
  std::string model;        // as the client named it
  std::string fingerprint;  // "fp_..."
  ReasoningField reasoning_field = ReasoningField::reasoning_content;
  bool hides_reasoning = false;
  bool includes_usage = false;         // a usage chunk at the end, "usage":null before
  bool includes_usage_always = false;  // usage in every chunk
};

// A choice of a complete answer, gathered from events.
struct ChatMessage {
  std::string reasoning;
  std::string content;
  struct Call {
    std::string id, name, arguments;
  };
  std::vector<Call> calls;
  std::string logprobs;  // JSON entries, comma-separated
  text::FinishReason reason = text::FinishReason::stop;

  void add(const text::Event& event);
};

class ChatWriter {
 public:
  ChatWriter(ChatFrame frame, bool has_logprobs) : frame_(std::move(frame)), has_logprobs_(has_logprobs) {}

  // `usage` is the current count, written only in continuous mode.
  std::string role_chunk(std::size_t choice, const ChatUsage& usage) const;
  // Returns the chunks of one choice's events: neighbours of one kind become one delta. `logprobs` goes with the first
  // chunk; it is emptied if there was one.
  std::string event_chunks(std::size_t choice, const text::Events& events, std::string& logprobs,
                           const ChatUsage& usage) const;
  std::string last_events(const ChatUsage& usage) const;  // usage chunk if asked for, [DONE]

  // Returns the body of a complete answer.
  std::string body(const std::vector<ChatMessage>& choices, const ChatUsage& usage) const;

 private:
  struct Chunk {
    std::size_t choice;
    std::string_view delta;          // members of the delta object
    std::string_view logprobs = {};  // JSON entries
    std::string_view finish = {};    // reason
  };
  void begin(JsonWriter& json, std::string_view object) const;
  void add_chunk(std::string& out, const Chunk& chunk, const ChatUsage& usage) const;
  std::string delta_of(const text::Event& event) const;
  void add_message(JsonWriter& json, const ChatMessage& message) const;

  const ChatFrame frame_;
  const bool has_logprobs_;
};

inline constexpr std::string_view keepalive_comment = ": keep-alive\n\n";

}  // namespace tandem::net::http
