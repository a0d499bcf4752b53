// SequenceBook: who waits, who runs, and who holds which pages. Pure bookkeeping: no actor, no clock of its own, no
// thread.
//
// Invariant: pages held by running sequences + free pages == pages_total, and a sequence holds enough pages for its
// whole prompt and all tokens it may still generate. A running sequence can therefore always take its next step:
// nothing is ever preempted for room. Order is first come, first served: a large request at the head waits for room and
// holds back those behind it, so none starves.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <vector>

#include "actors/generation.hpp"
#include "actors/messages.hpp"

namespace tandem::actors {

struct BookLimits {
  std::uint32_t lanes_max = 8;  // running at once
  std::int64_t pages_total = 0;
  std::int64_t page_tokens = 1;
  std::uint32_t queue_max = 256;               // waiting requests
  std::uint64_t queue_tokens_max = 4'000'000;  // prompt tokens of all waiting requests
};

enum class SequencePhase : std::uint8_t { waiting, prefill, decode };

struct Sequence {
  RequestId id = 0;
  TokenIds prompt;
  gpu::SamplingParams sampling;
  std::uint32_t max_tokens = 0;
  std::vector<gpu::TokenId> generated;  // kept at the head so that a lost rank group can be refilled
  std::size_t generated_at_loss = 0;    // ids at the last loss of the ranks
  std::uint32_t futile_losses = 0;      // losses in a row between which nothing was generated
  SequencePhase phase = SequencePhase::waiting;
  std::int64_t pages = 0;
  std::chrono::steady_clock::time_point submitted{}, admitted{}, first_token{}, last_token{};
};

class SequenceBook {
 public:
  void set_limits(const BookLimits& limits);
  const BookLimits& limits() const noexcept { return limits_; }

  // Puts a sequence at the end of the queue, or says why not (queue_full; invalid if it could never fit).
  std::optional<Rejection> enqueue(Sequence sequence);
  // Moves sequences from the queue to running while lanes and pages last; returns them in order.
  std::vector<Sequence*> admit(std::chrono::steady_clock::time_point now);
  // Removes a waiting or running sequence and frees its pages; returns the phase it was in, nothing if unknown.
  std::optional<SequencePhase> erase(RequestId id);
  // Returns every running sequence to the front of the queue, oldest first (the ranks lost their caches).
  std::vector<RequestId> park_running();
  Sequence* find(RequestId id);

  std::size_t running() const noexcept { return running_.size(); }
  std::size_t waiting() const noexcept { return queue_.size(); }
  // Whether a running sequence has prompt rows left to feed.
  bool is_prefilling() const noexcept;
  std::int64_t pages_free() const noexcept { return limits_.pages_total - pages_held_; }
  double usage() const noexcept;
  // Returns the ids of everything in the book, running first.
  std::vector<RequestId> ids() const;

 private:
  std::int64_t pages_for(const Sequence& sequence) const noexcept;

  BookLimits limits_;
  std::deque<Sequence> queue_;
  std::map<RequestId, Sequence> running_;  // ids rise with time: iteration is oldest first
  std::int64_t pages_held_ = 0;
  std::uint64_t queue_tokens_ = 0;
};

}  // namespace tandem::actors
