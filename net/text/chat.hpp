// A chat request as the model sees it: conversation, tools, thinking and answer format. The door of net/text for the
// HTTP layer.
//
// Sampling parameters, limits and transport are not here. The chat completions surface reads a request from JSON in one
// call; the other surfaces fill the same struct from their own shapes with the readers of messages.hpp, tools.hpp and
// thinking.hpp.
#pragma once

#include "net/text/messages.hpp"
#include "net/text/prompt.hpp"
#include "net/text/request_error.hpp"
#include "net/text/response_format.hpp"
#include "net/text/thinking.hpp"
#include "net/text/tokenizer.hpp"
#include "net/text/tools.hpp"

#include <stop_token>
#include <string>
#include <vector>

namespace tandem::net::text {

struct ChatConfig {
  ReasoningConfig reasoning;
  MessageOptions messages;
  ToolLimits tools;
};

struct ChatRequest {
  std::vector<Message> messages;
  std::vector<Tool> tools;
  ToolChoice tool_choice;
  bool allows_parallel_calls = true;
  Thinking thinking;
  ResponseFormat format;
  bool is_continuation = false;  // the answer goes on from the last message, which must be an assistant's

  // Reads the fields above from the body of a chat completion. Errors: 400 with the field in `param`.
  static RequestResult<ChatRequest> from_json(const Json& body, const ChatConfig& config);
};

// What the engine is given.
struct Prompt {
  std::vector<TokenId> ids;
  ParserStart start = ParserStart::content;
  std::vector<std::string> images;  // addresses, in the order of their image tokens
};

// Returns the prompt before tokenisation. Errors: 400 `messages`, `continue_final_message`.
RequestResult<WrittenPrompt> write_chat_prompt(const ChatRequest& request);

// Returns the ids of a written prompt; some of them once `stop` asks to stop. Error: 400 if the model lacks a token
// that it needs.
RequestResult<Prompt> encode_prompt(const WrittenPrompt& written, const Tokenizer& tokenizer,
                                    const std::stop_token& stop = {});

// Returns the prompt's ids. Errors: as above, and 400 if the model lacks a token that the request needs.
RequestResult<Prompt> encode_prompt(const ChatRequest& request, const Tokenizer& tokenizer);

}  // namespace tandem::net::text
