// One generation of ranks as the head's supervisor sees it: who belongs to it, what state each is in, when it is
// complete. Pure bookkeeping; a new generation (new run id) replaces a lost one.
#pragma once

#include <string>
#include <vector>

#include "actors/messages.hpp"
#include "engram/error.hpp"

namespace tandem::actors {

class RankRoster {
 public:
  // Begins a generation of `ranks` members.
  void begin(int ranks, std::string run_id);
  void end() { run_id_.clear(); }
  bool is_active() const noexcept { return !run_id_.empty(); }
  const std::string& run_id() const noexcept { return run_id_; }

  // Takes a state report; false if it belongs to another generation or to no rank of this one.
  bool update(const RankState& state, const caf::actor& worker);
  bool is_complete() const;
  // Returns the complete group, its longest sequence limited to what the page pool holds; mismatch if the ranks loaded
  // different models.
  Result<RankGroup> group() const;
  std::vector<RankReport> reports() const;

 private:
  struct Member {
    RankState state;
    caf::actor worker;
  };
  std::string run_id_;
  std::vector<Member> members_;
};

// Returns 16 random hexadecimal digits.
std::string make_run_id();

}  // namespace tandem::actors
