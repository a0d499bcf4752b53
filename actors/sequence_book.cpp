// Queue and pages: every change keeps held + free == total.
#include "actors/sequence_book.hpp"

#include <algorithm>
#include <utility>

namespace tandem::actors {

void SequenceBook::set_limits(const BookLimits& limits) {
  limits_ = limits;
}

std::optional<Rejection> SequenceBook::enqueue(Sequence sequence) {
  const std::uint64_t tokens = sequence.prompt->size();
  if (pages_for(sequence) > limits_.pages_total && limits_.pages_total > 0)
    return Rejection{RejectReason::invalid, "the request needs more KV pages than the pool has", 0};
  if (queue_.size() >= limits_.queue_max || queue_tokens_ + tokens > limits_.queue_tokens_max)
    return Rejection{RejectReason::queue_full, "the queue is full", 1};
  sequence.phase = SequencePhase::waiting;
  queue_tokens_ += tokens;
  queue_.push_back(std::move(sequence));
  return std::nullopt;
}

std::vector<Sequence*> SequenceBook::admit(std::chrono::steady_clock::time_point now) {
  std::vector<Sequence*> admitted;
  while (!queue_.empty() && running_.size() < limits_.lanes_max) {
    const std::int64_t pages = pages_for(queue_.front());
    if (pages > pages_free()) break;
    Sequence sequence = std::move(queue_.front());
    queue_.pop_front();
    queue_tokens_ -= sequence.prompt->size();
    pages_held_ += pages;
    sequence.pages = pages;
    sequence.phase = SequencePhase::prefill;
    sequence.admitted = now;
    const RequestId id = sequence.id;
    admitted.push_back(&running_.emplace(id, std::move(sequence)).first->second);
  }
  return admitted;
}

std::optional<SequencePhase> SequenceBook::erase(RequestId id) {
  if (auto it = running_.find(id); it != running_.end()) {
    const SequencePhase phase = it->second.phase;
    pages_held_ -= it->second.pages;
    running_.erase(it);
    return phase;
  }
  auto it = std::find_if(queue_.begin(), queue_.end(), [id](const Sequence& s) { return s.id == id; });
  if (it == queue_.end()) return std::nullopt;
  queue_tokens_ -= it->prompt->size();
  queue_.erase(it);
  return SequencePhase::waiting;
}

std::vector<RequestId> SequenceBook::park_running() {
  std::vector<RequestId> parked;
  for (auto it = running_.rbegin(); it != running_.rend(); ++it) {
    Sequence sequence = std::move(it->second);
    sequence.phase = SequencePhase::waiting;
    sequence.pages = 0;
    queue_tokens_ += sequence.prompt->size();
    parked.push_back(sequence.id);
    queue_.push_front(std::move(sequence));
  }
  running_.clear();
  pages_held_ = 0;
  std::reverse(parked.begin(), parked.end());
  return parked;
}

Sequence* SequenceBook::find(RequestId id) {
  if (auto it = running_.find(id); it != running_.end()) return &it->second;
  auto it = std::find_if(queue_.begin(), queue_.end(), [id](const Sequence& s) { return s.id == id; });
  return it == queue_.end() ? nullptr : &*it;
}

bool SequenceBook::is_prefilling() const noexcept {
  return std::any_of(running_.begin(), running_.end(),
                     [](const auto& entry) { return entry.second.phase == SequencePhase::prefill; });
}

double SequenceBook::usage() const noexcept {
  return limits_.pages_total > 0 ? static_cast<double>(pages_held_) / static_cast<double>(limits_.pages_total) : 0.0;
}

std::vector<RequestId> SequenceBook::ids() const {
  std::vector<RequestId> all;
  for (const auto& [id, sequence] : running_) all.push_back(id);
  for (const auto& sequence : queue_) all.push_back(sequence.id);
  return all;
}

std::int64_t SequenceBook::pages_for(const Sequence& sequence) const noexcept {
  const auto tokens = static_cast<std::int64_t>(sequence.prompt->size()) + sequence.max_tokens;
  return (tokens + limits_.page_tokens - 1) / limits_.page_tokens;
}

}  // namespace tandem::actors
