// AnswerContract: what a request was promised about its answer (a JSON object, JSON of a schema, a call of a tool), and
// whether the answer keeps it.
//
// The promise is checked when the answer is complete: one that breaks it is an error for the client and never an answer
// that looks right. An answer that was cut by its length promises nothing.
#pragma once

#include "net/text/parser_events.hpp"
#include "net/text/response_format.hpp"
#include "net/text/tools.hpp"

#include <optional>
#include <string>
#include <vector>

namespace tandem::net::text {

class AnswerContract {
 public:
  // `required`: the tools of which at least one must be called, and no other; nullptr if none has to be. Both must
  // outlive this.
  AnswerContract(const ResponseFormat& format, const std::vector<Tool>* required)
      : format_(&format), required_(required) {}

  // Takes note of events in their order and takes out those of calls that no tool stands for.
  void pass(Events& events);
  // Returns how the answer breaks the promise, once its finish event was seen; nothing if it keeps it.
  std::optional<std::string> violation() const;

 private:
  std::optional<std::string> judge_content() const;

  bool is_invented(const Event& event) const;

  const ResponseFormat* format_;
  const std::vector<Tool>* required_;
  bool has_call_ = false;
  std::optional<std::string> invented_;  // the name of a call that no tool stands for
  std::string content_;                  // kept only where a format is promised
  std::optional<FinishReason> finish_;
};

}  // namespace tandem::net::text
