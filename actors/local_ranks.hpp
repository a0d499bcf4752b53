// The rank workers of this process, owned: they are told to end when their owner goes.
//
// It is a member of the state of the actor that spawned them. CAF destroys that state however the actor ends (exit
// message, exception, quit) and before anybody hears of it. A worker that nobody stops keeps its thread, and the end of
// the actor system waits for that thread for ever.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "actors/rank_worker.hpp"

namespace tandem::actors {

class LocalRanks {
 public:
  LocalRanks() = default;
  LocalRanks(const LocalRanks&) = delete;
  LocalRanks& operator=(const LocalRanks&) = delete;
  ~LocalRanks() { stop("the actor that watched the ranks ended"); }

  // Takes a worker and the control that its options hold.
  void add(caf::actor worker, std::shared_ptr<RankControl> control);
  // Forgets a worker that ended; false if it is none of these.
  bool erase(const caf::actor_addr& worker);
  // Wakes what they wait for and tells them to end. They stay here until they have.
  void stop(const std::string& reason);
  bool empty() const noexcept { return members_.empty(); }
  std::size_t size() const noexcept { return members_.size(); }

 private:
  struct Member {
    caf::actor worker;
    std::shared_ptr<RankControl> control;
  };
  std::vector<Member> members_;
};

}  // namespace tandem::actors
