// Collects what it must judge and judges it once.
#include "net/text/answer_contract.hpp"

#include "net/text/json/parse.hpp"
#include "net/text/json_schema.hpp"

#include <fmt/format.h>

namespace tandem::net::text {

void AnswerContract::pass(Events& events) {
  bool is_dropping = false;  // calls are delivered whole: the events of one stand together
  std::erase_if(events, [&](const Event& event) {
    if (event.kind == EventKind::call_begin) is_dropping = is_invented(event);
    if (is_dropping && event.kind == EventKind::call_begin) invented_ = event.text;
    const bool is_of_call =
        event.kind == EventKind::call_begin || event.kind == EventKind::call_args || event.kind == EventKind::call_end;
    if (is_of_call && is_dropping) return true;
    if (event.kind == EventKind::content && format_->kind != FormatKind::text) content_ += event.text;
    if (event.kind == EventKind::call_end) has_call_ = true;
    if (event.kind == EventKind::finish) finish_ = event.reason;
    return false;
  });
}

bool AnswerContract::is_invented(const Event& event) const {
  return required_ != nullptr && find_tool(*required_, event.text) == nullptr;
}

std::optional<std::string> AnswerContract::violation() const {
  if (!finish_ || *finish_ == FinishReason::length) return std::nullopt;
  if (invented_) return fmt::format("the model called \"{}\", which is none of the tools", *invented_);
  if (has_call_) return std::nullopt;  // calls may take the place of the promised content
  if (required_ != nullptr) return "the model ended its turn without the tool call that tool_choice requires";
  if (format_->kind == FormatKind::text) return std::nullopt;
  return judge_content();
}

std::optional<std::string> AnswerContract::judge_content() const {
  const auto value = parse_json(content_);
  if (!value) return fmt::format("the answer is not JSON, which response_format asks for: {}", value.error().message());
  if (format_->kind == FormatKind::json_object) {
    if (value->if_object() != nullptr) return std::nullopt;
    return fmt::format("the answer is no JSON object, which response_format asks for, but of type {}",
                       value->type_name());
  }
  const auto found = find_violation({format_->schema, format_->is_strict}, *value);
  if (!found) return std::nullopt;
  return fmt::format("the answer does not conform to the schema of response_format: {}", *found);
}

}  // namespace tandem::net::text
