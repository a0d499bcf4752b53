// One member function for each kind of turn; the header and the question "which reasoning stays" are asked in one place
// each.
#include "net/text/prompt.hpp"

#include "net/text/call_markup.hpp"
#include "net/text/json/write.hpp"
#include "net/text/tools_block.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>

namespace tandem::net::text {
namespace {

constexpr std::string_view blank_line = "\n\n";

constexpr std::string_view schema_heading =
    "\n\n## Response Format:\n\nYou MUST strictly adhere to the following schema to reply:\n";

Markup task_markup(Task task) {
  switch (task) {
    case Task::action:
      return Markup::action;
    case Task::query:
      return Markup::query;
    case Task::authority:
      return Markup::authority;
    case Task::domain:
      return Markup::domain;
    case Task::title:
      return Markup::title;
    case Task::read_url:
      break;
  }
  return Markup::read_url;
}

bool is_empty(const Turn& turn) {
  const auto& parts = turn.blocks.front().content;
  return std::all_of(parts.begin(), parts.end(), [](const ContentPart& p) { return !p.is_image && p.value.empty(); });
}

class PromptWriter {
 public:
  explicit PromptWriter(const PromptSource& source) : source_(source), last_user_(find_last_user()) {}

  WrittenPrompt write() {
    write_front();
    if (source_.turns.empty() || source_.turns.front().kind == TurnKind::assistant) write_header(-1);
    for (std::ptrdiff_t i = 0; i < count(); ++i) {
      write_turn(i);
      const bool ends_here = i + 1 == count();
      if (ends_here ? !source_.is_continuation : at(i + 1).kind == TurnKind::assistant) write_header(i);
    }
    return std::move(out_);
  }

 private:
  std::ptrdiff_t count() const { return static_cast<std::ptrdiff_t>(source_.turns.size()); }
  const Turn& at(std::ptrdiff_t i) const { return source_.turns[static_cast<std::size_t>(i)]; }

  // Index of the last user turn, or system turn that is not the first; -1 if there is none.
  std::ptrdiff_t find_last_user() const {
    for (std::ptrdiff_t i = count() - 1; i >= 0; --i) {
      if (at(i).kind == TurnKind::user || (at(i).kind == TurnKind::system && i > 0)) return i;
    }
    return -1;
  }

  // With tools all reasoning stays: the model planned its calls in it.
  bool keeps_all() const { return !source_.tools.empty() || source_.thinking.keeps_old_reasoning; }

  // Whether the assistant turn that follows turn `i` thinks, or thought, in the open.
  bool thinks_after(std::ptrdiff_t i) const { return source_.thinking.is_on && (keeps_all() || i >= last_user_); }

  void write_front() {
    segments().markup(Markup::bos);
    const bool begins_with_system = !source_.turns.empty() && source_.turns.front().kind == TurnKind::system;
    if (source_.thinking.is_on || begins_with_system) segments().markup(Markup::system);
    if (!source_.thinking.is_on) return;
    segments().text(
        fmt::format("Reasoning Effort: {} (range 1-100, the higher the value, the more thorough the reasoning)\n\n",
                    source_.thinking.effort));
  }

  void write_turn(std::ptrdiff_t i) {
    switch (at(i).kind) {
      case TurnKind::system:
        return write_system(i);
      case TurnKind::user:
        return write_user(at(i));
      case TurnKind::assistant:
        return write_assistant(i);
      case TurnKind::latest_reminder:
        break;
    }
    segments().markup(Markup::latest_reminder);
    write_content(at(i).blocks.front().content);
  }

  void write_system(std::ptrdiff_t i) {
    if (i > 0) segments().markup(Markup::system);
    write_content(at(i).blocks.front().content);
    if (i > 0) return;
    write_tools_block(segments(), source_.tools);
    if (source_.format.kind != FormatKind::json_schema) return;
    segments().text(schema_heading);
    segments().text(write_json(source_.format.schema));
  }

  void write_user(const Turn& turn) {
    segments().markup(Markup::user);
    for (std::size_t i = 0; i < turn.blocks.size(); ++i) {
      if (i > 0) segments().text(blank_line);
      const Block& block = turn.blocks[i];
      if (block.is_result) segments().text("<tool_result>");
      write_content(block.content);
      if (block.is_result) segments().text("</tool_result>");
    }
  }

  void write_assistant(std::ptrdiff_t i) {
    const Turn& turn = at(i);
    const bool goes_on = source_.is_continuation && i + 1 == count();
    const bool answers_task = i > 0 && at(i - 1).task.has_value();
    if (thinks_after(i - 1) && !answers_task) {
      segments().text(turn.reasoning);
      if (goes_on && !turn.reasoning.empty() && is_empty(turn) && turn.calls.empty()) {
        out_.start = ParserStart::reasoning;
        return;
      }
      segments().markup(Markup::think_close);
    }
    write_content(turn.blocks.front().content);
    write_calls(segments(), turn.calls);
    if (!goes_on) segments().markup(Markup::eos);
    out_.start = ParserStart::content;
  }

  // Opens the assistant turn after turn `i`; -1 is the front of the prompt. A task token stands in the header's place.
  void write_header(std::ptrdiff_t i) {
    const std::optional<Task> task = i >= 0 ? at(i).task : std::nullopt;
    if (!task || *task == Task::action) {
      segments().markup(Markup::assistant);
      segments().markup(thinks_after(i) ? Markup::think_open : Markup::think_close);
    }
    if (task) segments().markup(task_markup(*task));
    out_.start = thinks_after(i) && !task ? ParserStart::reasoning : ParserStart::content;
  }

  void write_content(const Content& content) {
    for (std::size_t i = 0; i < content.size(); ++i) {
      if (i > 0) segments().text(blank_line);
      if (content[i].is_image) {
        segments().image(content[i].value);
      } else {
        segments().text(content[i].value);
      }
    }
  }

  SegmentList& segments() { return out_.segments; }

  const PromptSource& source_;
  std::ptrdiff_t last_user_;
  WrittenPrompt out_;
};

}  // namespace

WrittenPrompt write_prompt(const PromptSource& source) {
  return PromptWriter(source).write();
}

}  // namespace tandem::net::text
