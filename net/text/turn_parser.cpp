// Text goes through hold() character by character; tags are read by TagReader and acted upon in one function for each
// kind of state.
#include "net/text/turn_parser.hpp"

#include <utility>

namespace tandem::net::text {
namespace {

// The blank line before a call block is the block's, not the content's.
constexpr std::size_t separator_newlines = 2;

}  // namespace

TurnParser::TurnParser(TurnOptions options)
    : options_(std::move(options)),
      state_(options_.start == ParserStart::reasoning ? State::reasoning : State::content),
      stop_(std::move(options_.stop), options_.includes_stop) {
  if (options_.tools != nullptr && options_.tools->empty()) options_.tools = nullptr;
}

bool TurnParser::is_reasoning() const noexcept {
  return state_ == State::reasoning;
}

void TurnParser::text(std::string_view text, Events& out) {
  std::string released;
  for (std::size_t i = 0; i < text.size() && state_ != State::ended; ++i) {
    if (!tag_) {
      hold(text[i], released);
      continue;
    }
    if (const auto tag = tag_->push(text[i])) {
      tag_.reset();
      on_tag(*tag, out);
    }
  }
  emit(released, out);
}

// Appends to `released` what can no longer be the beginning of a tag. Only visible text holds newlines.
void TurnParser::hold(char c, std::string& released) {
  if (options_.tools == nullptr) {
    released.push_back(c);
    return;
  }
  const bool ends_in_bracket = !held_.empty() && held_.back() == '<';
  if (c == '/' && ends_in_bracket) {
    released.append(held_, 0, held_.size() - 1);
    held_ = "</";
    return;
  }
  const bool ends_in_newline = !held_.empty() && held_.back() == '\n';
  if (c == '<' && (held_.empty() || ends_in_newline)) {
    held_.push_back(c);
    return;
  }
  if (!ends_in_newline) released += std::exchange(held_, {});
  if (c == '<') {
    held_.push_back(c);
  } else if (c == '\n' && is_visible()) {
    held_.push_back(c);
    if (held_.size() > separator_newlines) {
      held_.pop_back();
      released.push_back('\n');
    }
  } else {
    released += std::exchange(held_, {});
    released.push_back(c);
  }
}

void TurnParser::release_held(Events& out) {
  emit(std::exchange(held_, {}), out);
}

// Sends text to where the current state puts it; between tags of a block it is nobody's.
void TurnParser::emit(std::string_view text, Events& out) {
  if (text.empty()) return;
  switch (state_) {
    case State::reasoning:
      return add(out, EventKind::reasoning, text);
    case State::content:
      add(out, EventKind::content, stop_.push(text));
      if (stop_.matched()) state_ = State::ended;
      return;
    case State::parameter:
      arguments_->value(text);
      return send_arguments(out);
    case State::calls:
    case State::invoke:
    case State::ended:
      return;
  }
}

void TurnParser::add(Events& out, EventKind kind, std::string_view text, std::size_t index) {
  const bool is_text = kind == EventKind::reasoning || kind == EventKind::content || kind == EventKind::call_args;
  if (is_text && text.empty()) return;
  if (is_text && !out.empty() && out.back().kind == kind && out.back().index == index) {
    out.back().text += text;
    return;
  }
  out.push_back({kind, std::string(text), index, FinishReason::stop});
}

void TurnParser::think_close(Events& out) {
  other_marker(out);
  if (state_ == State::reasoning) state_ = State::content;
}

void TurnParser::other_marker(Events& out) {
  tag_.reset();
  if (state_ != State::ended) release_held(out);
}

void TurnParser::dsml(Events& out) {
  if (state_ == State::ended) return;
  if (tag_) {  // a tag inside a tag: the first one is given up
    const bool is_closer = tag_->text().ends_with("</");
    const bool is_opener = tag_->text().ends_with("<");
    tag_.reset();
    if (is_closer || is_opener) tag_.emplace(is_closer);
    return;
  }
  if (held_.ends_with("</")) {
    tag_.emplace(true);
  } else if (held_.ends_with("<")) {
    tag_.emplace(false);
  } else {
    return release_held(out);
  }
  held_.clear();
}

void TurnParser::on_tag(const Tag& tag, Events& out) {
  switch (state_) {
    case State::reasoning:
    case State::content:
      if (tag.kind == TagKind::calls_open || tag.kind == TagKind::invoke_open) enter_calls(out);
      if (tag.kind == TagKind::invoke_open) open_call(tag.name, out);
      return;
    case State::parameter:
      return on_parameter_tag(tag, out);
    case State::calls:
    case State::invoke:
      return on_block_tag(tag, out);
    case State::ended:
      return;
  }
}

// A value ends at its own closer and at every tag that can only stand behind it.
void TurnParser::on_parameter_tag(const Tag& tag, Events& out) {
  if (tag.kind == TagKind::unknown || tag.kind == TagKind::calls_open) return;
  arguments_->end();
  state_ = State::invoke;
  send_arguments(out);
  on_block_tag(tag, out);
}

void TurnParser::on_block_tag(const Tag& tag, Events& out) {
  const bool is_in_call = state_ == State::invoke;
  switch (tag.kind) {
    case TagKind::invoke_open:
      if (is_in_call) close_call(out);
      if (state_ != State::ended) open_call(tag.name, out);
      return;
    case TagKind::parameter_open:
      if (!is_in_call) return;
      arguments_->begin(tag.name, tag.is_string);
      state_ = State::parameter;
      return send_arguments(out);
    case TagKind::invoke_close:
      if (is_in_call) close_call(out);
      return;
    case TagKind::calls_close:
      if (is_in_call) close_call(out);
      return close_block();
    case TagKind::calls_open:
    case TagKind::parameter_close:
    case TagKind::unknown:
      return;
  }
}

void TurnParser::enter_calls(Events& out) {
  if (state_ == State::content) add(out, EventKind::content, stop_.release());
  state_ = State::calls;
}

void TurnParser::open_call(const std::string& name, Events& out) {
  state_ = State::invoke;
  call_name_ = name;
  arguments_.emplace(find_tool(*options_.tools, name));
  if (options_.delivery == CallDelivery::live) add(out, EventKind::call_begin, name, complete_calls_);
}

void TurnParser::send_arguments(Events& out) {
  if (options_.delivery == CallDelivery::live) add(out, EventKind::call_args, arguments_->take(), complete_calls_);
}

void TurnParser::close_call(Events& out) {
  arguments_->finish();
  if (options_.delivery == CallDelivery::whole) add(out, EventKind::call_begin, call_name_, complete_calls_);
  add(out, EventKind::call_args, arguments_->take(), complete_calls_);
  add(out, EventKind::call_end, {}, complete_calls_);
  arguments_.reset();
  ++complete_calls_;
  state_ = options_.allows_parallel_calls ? State::calls : State::ended;
}

void TurnParser::close_block() {
  if (state_ == State::calls) state_ = complete_calls_ > 0 ? State::ended : State::content;
}

void TurnParser::end_turn(Events& out) {
  tag_.reset();
  release_held(out);
  if (state_ == State::content) add(out, EventKind::content, stop_.release());
  state_ = State::ended;
}

void TurnParser::finish(EndCause cause, Events& out) {
  if (state_ != State::ended) {
    is_cut_ = cause == EndCause::length;
    end_turn(out);
  }
  FinishReason reason = FinishReason::stop;
  if (complete_calls_ > 0 && !options_.named_choice_stops) reason = FinishReason::tool_calls;
  if (is_cut_) reason = FinishReason::length;
  out.push_back({EventKind::finish, {}, 0, reason});
}

}  // namespace tandem::net::text
