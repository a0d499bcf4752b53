// Waking and ending a set of rank workers together.
#include "actors/local_ranks.hpp"

#include <utility>

namespace tandem::actors {

void LocalRanks::add(caf::actor worker, std::shared_ptr<RankControl> control) {
  members_.push_back({std::move(worker), std::move(control)});
}

bool LocalRanks::erase(const caf::actor_addr& worker) {
  return std::erase_if(members_, [&](const Member& member) { return member.worker.address() == worker; }) > 0;
}

void LocalRanks::stop(const std::string& reason) {
  // All are woken first: one that sees another end must not take that for the cause.
  for (const Member& member : members_) member.control->abort(reason);
  for (const Member& member : members_) caf::anon_send_exit(member.worker, caf::exit_reason::user_shutdown);
}

}  // namespace tandem::actors
