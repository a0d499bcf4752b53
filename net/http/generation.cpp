// Submitting, listening and cancelling for one exchange.
#include "net/http/generation.hpp"

#include <utility>

namespace tandem::net::http {

Generation::Generation(actors::FrontDoor& door, Exchange& exchange, int choices, std::size_t unsent_bytes_max)
    : door_(door), wakeup_(exchange.executor()), inbox_(std::make_shared<TokenInbox>(choices, unsent_bytes_max)) {
  inbox_->open(wakeup_);
  exchange.watch([inbox = inbox_](Departure departure) { inbox->tell(departure); });
}

Generation::~Generation() {
  inbox_->close();
  for (std::size_t choice = 0; choice < running_.size(); ++choice) cancel(choice);
}

void Generation::submit(actors::GenerationRequest request) {
  const actors::RequestId id = door_.submit(std::move(request), make_sink(inbox_, running_.size()));
  running_.push_back({id, false});
}

InboxNews Generation::take() {
  InboxNews news = inbox_->take();
  for (std::size_t choice = 0; choice < running_.size(); ++choice)
    if (news.choices[choice].rejected || news.choices[choice].finished) running_[choice].is_over = true;
  return news;
}

void Generation::cancel(std::size_t choice) {
  if (!running_[choice].is_over) door_.cancel(running_[choice].id);
}

void Generation::complete(std::size_t choice) {
  if (!running_[choice].is_over) door_.complete(running_[choice].id);
}

}  // namespace tandem::net::http
