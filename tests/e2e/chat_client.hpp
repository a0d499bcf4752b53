// Asks a running server over HTTP as a client would, and reads the answer of a stream or of a whole body.
#pragma once

#include <boost/json.hpp>
#include <cstdint>
#include <string>
#include <string_view>

namespace tandem::test {

struct ChatAnswer {
  int status = 0;
  std::string content, reasoning, finish_reason, error;
  boost::json::array tool_calls;  // whole answers only
  std::int64_t prompt_tokens = 0, completion_tokens = 0;
  std::size_t events = 0;  // data lines of a stream
  bool is_done = false;    // the stream ended with [DONE]
};

// Returns a request body: one user message, greedy, thinking as given; `more` is merged over it.
boost::json::object chat_body(std::string_view question, bool is_thinking = false, boost::json::object more = {});

// Posts to /v1/chat/completions. Reads a stream if body.stream is true; stops after `events_max` events and drops the
// connection.
ChatAnswer ask(std::uint16_t port, const boost::json::object& body, std::size_t events_max = SIZE_MAX);

// Returns the value of a metric (all its label sets added), -1 if it is not there.
double metric(std::uint16_t port, std::string_view name);

// Waits until a metric has at least this value; false past a minute.
bool metric_reaches(std::uint16_t port, std::string_view name, double value);

// Waits until nothing runs or waits; false past ten seconds.
bool becomes_idle(std::uint16_t port);

}  // namespace tandem::test
