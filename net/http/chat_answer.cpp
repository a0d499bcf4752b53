// The loop over wake-ups. After the last choice has ended for the client, the engine's own ends are still awaited:
// usage needs them.
#include "net/http/chat_answer.hpp"

#include "net/http/request_id.hpp"

#include <algorithm>
#include <chrono>
#include <ctime>
#include <utility>

namespace tandem::net::http {
namespace {

using Clock = std::chrono::steady_clock;

ChatFrame make_frame(const ApiContext& context, const ChatJob& job) {
  ChatFrame frame;
  frame.id = new_random_id("chatcmpl-");
  frame.created = static_cast<std::int64_t>(std::time(nullptr));
  frame.model = job.model;
  frame.fingerprint = "fp_" + context.options.build;
  frame.reasoning_field = context.options.reasoning_field;
  frame.hides_reasoning = job.fields.hides_reasoning;
  frame.includes_usage = job.fields.includes_usage;
  frame.includes_usage_always = job.fields.includes_usage_always;
  return frame;
}

}  // namespace

ChatAnswer::ChatAnswer(const ApiContext& context, const ChatJob& job, Exchange& exchange)
    : context_(context),
      job_(job),
      exchange_(exchange),
      generation_(context.door, exchange, job.fields.choices, context.options.limits.unsent_bytes),
      writer_(make_frame(context, job), job.fields.has_logprobs),
      pending_logprobs_(static_cast<std::size_t>(job.fields.choices)),
      messages_(static_cast<std::size_t>(job.fields.choices)) {
  for (int choice = 0; choice < job.fields.choices; ++choice)
    choices_.push_back(std::make_unique<ChatChoice>(
        context.tokenizer,
        ChoiceOptions{output_options(job), answer_contract(job), job.stop_ids, job.fields.has_logprobs}));
}

Awaitable<ChatOutcome> ChatAnswer::ask() {
  for (int choice = 0; choice < job_.fields.choices; ++choice)
    generation_.submit(generation_request(context_, job_, choice, exchange_.request().id));
  std::vector<bool> has_news(choices_.size());
  bool was_never_accepted = false;  // a choice ended without a word before it
  while (std::ranges::find(has_news, false) != has_news.end()) {
    co_await generation_.wait(context_.options.keepalive);
    InboxNews news = generation_.take();
    if (const auto outcome = judge(news)) co_return *outcome;
    for (std::size_t index = 0; index < choices_.size(); ++index) {
      const ChoiceNews& choice = news.choices[index];
      if (choice.accepted) prompt_tokens_ = *choice.accepted;
      if (choice.finished && !choice.accepted && !has_news[index]) was_never_accepted = true;
      if (choice.accepted || choice.finished) has_news[index] = true;
    }
    feed(news);
    if (was_never_accepted && has_failed()) co_return ChatOutcome::failed;
  }
  co_return ChatOutcome::complete;
}

Awaitable<ChatOutcome> ChatAnswer::stream() {
  const auto keepalive = context_.options.keepalive;
  std::string out;
  for (std::size_t choice = 0; choice < choices_.size(); ++choice) out += writer_.role_chunk(choice, usage());
  for (auto last_sent = Clock::now();;) {
    // After a failure, what was generated before it is delivered first.
    const bool failed = has_failed();
    out += chunks();
    // Tokens may come for minutes without a byte for the client: hidden reasoning, a call that is being gathered.
    if (out.empty() && Clock::now() - last_sent >= keepalive) out = keepalive_comment;
    const bool is_sent = co_await exchange_.send(out);
    if (!is_sent) co_return leave();
    if (failed) co_return ChatOutcome::failed;
    if (is_complete()) co_return ChatOutcome::complete;
    if (!out.empty()) last_sent = Clock::now();
    out.clear();
    const auto silence_left = std::max(last_sent + keepalive - Clock::now(), Clock::duration::zero());
    co_await generation_.wait(std::chrono::ceil<std::chrono::milliseconds>(silence_left));
    InboxNews news = generation_.take();
    if (const auto outcome = judge(news)) co_return *outcome;
    feed(news);
  }
}

Awaitable<ChatOutcome> ChatAnswer::gather() {
  for (;;) {
    gather_events();
    if (has_failed()) co_return ChatOutcome::failed;
    if (is_complete()) co_return ChatOutcome::complete;
    co_await generation_.wait(context_.options.keepalive);
    InboxNews news = generation_.take();
    if (const auto outcome = judge(news)) co_return *outcome;
    feed(news);
  }
}

// Looks for what ends the exchange as a whole.
std::optional<ChatOutcome> ChatAnswer::judge(const InboxNews& news) {
  if (news.is_peer_gone) return leave();
  if (news.is_reader_too_slow) {
    context_.counters.count_slow_reader();
    return ChatOutcome::peer_gone;
  }
  for (const ChoiceNews& choice : news.choices) {
    if (!choice.rejected) continue;
    error_ = from_rejection(*choice.rejected, "messages");
    return ChatOutcome::failed;
  }
  if (!news.is_server_stopping) return std::nullopt;
  error_ = stopping_error();
  return ChatOutcome::failed;
}

ChatOutcome ChatAnswer::leave() {
  if (exchange_.has_stalled())
    context_.counters.count_slow_reader();
  else
    context_.counters.count_disconnect();
  return ChatOutcome::peer_gone;
}

void ChatAnswer::feed(InboxNews& news) {
  for (std::size_t index = 0; index < choices_.size(); ++index) {
    ChatChoice& choice = *choices_[index];
    for (const gpu::SampledToken& token : news.choices[index].tokens) choice.feed(token);
    if (const auto& finished = news.choices[index].finished) {
      choice.finish(*finished);
      context_.counters.count_usage(finished->usage);
      if (choice.has_failed()) error_ = from_finish(*finished);
    }
    if (choice.violation()) error_ = {500, *choice.violation(), "", "invalid_answer", 0};
    if (choice.is_complete_early()) generation_.complete(index);
  }
}

// Returns the chunks of everything that was fed since the last call.
std::string ChatAnswer::chunks() {
  std::string out;
  for (std::size_t index = 0; index < choices_.size(); ++index) {
    std::string fresh = choices_[index]->take_logprobs();
    std::string& pending = pending_logprobs_[index];
    if (!pending.empty() && !fresh.empty()) pending += ',';
    pending += fresh;
    out += writer_.event_chunks(index, choices_[index]->take_events(), pending, usage());
  }
  return out;
}

void ChatAnswer::gather_events() {
  for (std::size_t index = 0; index < choices_.size(); ++index) {
    const std::string fresh = choices_[index]->take_logprobs();
    std::string& entries = messages_[index].logprobs;
    if (!entries.empty() && !fresh.empty()) entries += ',';
    entries += fresh;
    for (const text::Event& event : choices_[index]->take_events()) messages_[index].add(event);
  }
}

bool ChatAnswer::has_failed() const {
  return std::ranges::any_of(choices_, [](const auto& choice) { return choice->has_failed(); });
}

bool ChatAnswer::is_complete() const {
  return std::ranges::all_of(choices_,
                             [](const auto& choice) { return choice->has_ended() && choice->engine_finish(); });
}

ChatUsage ChatAnswer::usage() const {
  ChatUsage usage;
  usage.prompt_tokens = prompt_tokens_;
  for (const auto& choice : choices_) {
    usage.completion_tokens += choice->completion_tokens();
    usage.reasoning_tokens += choice->reasoning_tokens();
  }
  // All choices have the same prompt; what the first one reused of it stands for all.
  if (const auto& first = choices_.front()->engine_finish()) usage.cached_tokens = first->usage.cached_tokens;
  return usage;
}

}  // namespace tandem::net::http
