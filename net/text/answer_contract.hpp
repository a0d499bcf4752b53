// AnswerContract: what a request was promised about its answer (a JSON object, JSON of a schema, a call of a tool), and
// whether the answer keeps it.
//
// The promise is checked when the answer is complete: one that breaks it is an error for the client and never an answer
// that looks right. An answer that was cut by its length promises nothing.
#pragma once

#include "net/text/parser_events.hpp"
#include "net/text/response_format.hpp"

#include <optional>
#include <string>

namespace tandem::net::text {

class AnswerContract {
 public:
  // `format` must outlive this. `needs_call`: at least one complete call must be made.
  AnswerContract(const ResponseFormat& format, bool needs_call) : format_(&format), needs_call_(needs_call) {}

  // Takes note of events in their order.
  void see(const Events& events);
  // Returns how the answer breaks the promise, once its finish event was seen; nothing if it keeps it.
  std::optional<std::string> violation() const;

 private:
  std::optional<std::string> judge_content() const;

  const ResponseFormat* format_;
  bool needs_call_;
  bool has_call_ = false;
  std::string content_;  // kept only where a format is promised
  std::optional<FinishReason> finish_;
};

}  // namespace tandem::net::text
