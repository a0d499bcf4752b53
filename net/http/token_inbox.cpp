// One mutex with its data; the wake-up happens under it, so that close() ends all of them.
#include "net/http/token_inbox.hpp"

#include <iterator>
#include <utility>

namespace tandem::net::http {
namespace {

// What a token becomes on the wire, roughly: an event of about 200 bytes, and one entry an alternative.
constexpr std::size_t event_bytes = 200;
constexpr std::size_t alternative_bytes = 80;

class ChoiceSink final : public actors::TokenSink {
 public:
  ChoiceSink(std::shared_ptr<TokenInbox> inbox, std::size_t choice) : inbox_(std::move(inbox)), choice_(choice) {}
  void on_accepted(std::uint32_t prompt_tokens) override { inbox_->put_accepted(choice_, prompt_tokens); }
  void on_rejected(const actors::Rejection& rejection) override { inbox_->put_rejected(choice_, rejection); }
  bool on_tokens(std::vector<gpu::SampledToken> tokens) override {
    return inbox_->put_tokens(choice_, std::move(tokens));
  }
  void on_finished(const actors::Finish& finish) override { inbox_->put_finished(choice_, finish); }

 private:
  const std::shared_ptr<TokenInbox> inbox_;
  const std::size_t choice_;
};

}  // namespace

InboxNews TokenInbox::empty_news(int choices) {
  InboxNews news;
  news.choices.resize(static_cast<std::size_t>(choices));
  return news;
}

void TokenInbox::open(Wakeup& wakeup) {
  std::lock_guard lock{mutex_};
  wakeup_ = &wakeup;
}

void TokenInbox::close() {
  std::lock_guard lock{mutex_};
  wakeup_ = nullptr;
}

InboxNews TokenInbox::take() {
  std::lock_guard lock{mutex_};
  unsent_bytes_ = 0;
  InboxNews fresh = empty_news(static_cast<int>(news_.choices.size()));
  fresh.is_peer_gone = news_.is_peer_gone;  // these stay true
  fresh.is_server_stopping = news_.is_server_stopping;
  fresh.is_reader_too_slow = news_.is_reader_too_slow;
  return std::exchange(news_, std::move(fresh));
}

void TokenInbox::wake() {
  if (wakeup_ != nullptr) wakeup_->notify();
}

void TokenInbox::tell(Departure departure) {
  std::lock_guard lock{mutex_};
  (departure == Departure::peer_gone ? news_.is_peer_gone : news_.is_server_stopping) = true;
  wake();
}

void TokenInbox::put_accepted(std::size_t choice, std::uint32_t prompt_tokens) {
  std::lock_guard lock{mutex_};
  news_.choices[choice].accepted = prompt_tokens;
  wake();
}

void TokenInbox::put_rejected(std::size_t choice, const actors::Rejection& rejection) {
  std::lock_guard lock{mutex_};
  news_.choices[choice].rejected = rejection;
  wake();
}

bool TokenInbox::put_tokens(std::size_t choice, std::vector<gpu::SampledToken> tokens) {
  std::lock_guard lock{mutex_};
  if (wakeup_ == nullptr || news_.is_peer_gone || news_.is_reader_too_slow) return false;
  for (const gpu::SampledToken& token : tokens) unsent_bytes_ += event_bytes + token.top.size() * alternative_bytes;
  news_.is_reader_too_slow = unsent_bytes_ > unsent_bytes_max_;
  auto& queue = news_.choices[choice].tokens;
  queue.insert(queue.end(), std::make_move_iterator(tokens.begin()), std::make_move_iterator(tokens.end()));
  wake();
  return !news_.is_reader_too_slow;
}

void TokenInbox::put_finished(std::size_t choice, const actors::Finish& finish) {
  std::lock_guard lock{mutex_};
  news_.choices[choice].finished = finish;
  wake();
}

std::shared_ptr<actors::TokenSink> make_sink(std::shared_ptr<TokenInbox> inbox, std::size_t choice) {
  return std::make_shared<ChoiceSink>(std::move(inbox), choice);
}

}  // namespace tandem::net::http
