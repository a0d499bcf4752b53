// The state machine that takes one assistant turn apart: text and markers in, events out. Knows neither ids nor UTF-8.
//
//   REASONING --</think>--> CONTENT --<D calls>--> CALLS --<D invoke>--> INVOKE --<D parameter>--> PARAMETER
//
// Three invariants. Chunking never changes the result: a decision waits until its last byte is there, and at most
// "\n\n<" or "</" of visible text waits with it. No markup reaches a client, whatever the model writes. A call is
// complete or it is not delivered: an open call at the end of a turn is dropped (a client executes what it gets; half a
// file is worse than no call).
#pragma once

#include "net/text/call_arguments.hpp"
#include "net/text/parser_events.hpp"
#include "net/text/prompt.hpp"
#include "net/text/stop_strings.hpp"
#include "net/text/tag_reader.hpp"
#include "net/text/tools.hpp"

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tandem::net::text {

// `whole` sends a call when it is complete; `live` sends its name at once and its string values as they come.
enum class CallDelivery { whole, live };

struct TurnOptions {
  ParserStart start = ParserStart::content;
  // The tools that may be called; must outlive the parser. Null or empty: no tag is read.
  const std::vector<Tool>* tools = nullptr;
  CallDelivery delivery = CallDelivery::whole;
  bool allows_parallel_calls = true;  // false: the turn ends after its first call
  bool named_choice_stops = false;    // OpenAI's habit: finish "stop" where a named tool_choice forced the call
  std::vector<std::string> stop;      // act on content only
  bool includes_stop = false;
};

// Why the token stream is over, for the one who feeds it: the model ended the turn, or max_tokens cut it.
enum class EndCause { end_of_turn, length };

class TurnParser {
 public:
  explicit TurnParser(TurnOptions options);

  // Valid UTF-8 text of ordinary tokens. Ignored once the turn has ended, like everything below.
  void text(std::string_view text, Events& out);
  void think_close(Events& out);
  void dsml(Events& out);
  // Any other added token: it vanishes, and what waited for a tag behind it no longer does.
  void other_marker(Events& out);

  // Ends the turn, if it has not ended by itself, and adds the finish event. To be called once.
  void finish(EndCause cause, Events& out);

  // True when the turn is over by what was read: the call block closed, or a stop string matched.
  bool has_ended() const noexcept { return state_ == State::ended; }
  bool is_reasoning() const noexcept;
  std::size_t complete_calls() const noexcept { return complete_calls_; }
  // The stop string that ended the turn.
  const std::optional<std::string>& matched_stop() const noexcept { return stop_.matched(); }

 private:
  enum class State { reasoning, content, calls, invoke, parameter, ended };

  bool is_visible() const noexcept { return state_ == State::reasoning || state_ == State::content; }
  void hold(char c, std::string& released);
  void release_held(Events& out);
  void emit(std::string_view text, Events& out);
  void add(Events& out, EventKind kind, std::string_view text, std::size_t index = 0);

  void on_tag(const Tag& tag, Events& out);
  void on_block_tag(const Tag& tag, Events& out);
  void on_parameter_tag(const Tag& tag, Events& out);
  void enter_calls(Events& out);
  void open_call(const std::string& name, Events& out);
  void send_arguments(Events& out);
  void close_call(Events& out);
  void close_block();
  void end_turn(Events& out);

  TurnOptions options_;
  State state_;
  std::string held_;              // newlines, '<' or "</" that may belong to a tag
  std::optional<TagReader> tag_;  // the tag being read, inside `state_`
  StopFilter stop_;

  std::string call_name_;
  std::optional<CallArguments> arguments_;  // of the open call
  std::size_t complete_calls_ = 0;
  bool is_cut_ = false;
};

}  // namespace tandem::net::text
