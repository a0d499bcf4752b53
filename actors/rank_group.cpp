// The roster of one generation of ranks: reports in, a complete group out.
#include "actors/rank_group.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <random>

namespace tandem::actors {

void RankRoster::begin(int ranks, std::string run_id) {
  run_id_ = std::move(run_id);
  members_.assign(static_cast<std::size_t>(ranks), {});
  for (int rank = 0; rank < ranks; ++rank) members_[static_cast<std::size_t>(rank)].state.rank = rank;
}

bool RankRoster::update(const RankState& state, const caf::actor& worker) {
  if (!is_active() || state.run_id != run_id_) return false;
  if (state.rank < 0 || static_cast<std::size_t>(state.rank) >= members_.size()) return false;
  members_[static_cast<std::size_t>(state.rank)] = {state, worker};
  return true;
}

bool RankRoster::is_complete() const {
  return is_active() && std::all_of(members_.begin(), members_.end(),
                                    [](const Member& m) { return m.state.state == NodeState::ready; });
}

Result<RankGroup> RankRoster::group() const {
  RankGroup group;
  group.info = members_.front().state.info;
  group.run_id = run_id_;
  for (const Member& member : members_) {
    const auto& info = member.state.info;
    if (info.config_hash != group.info.config_hash || info.pages_total != group.info.pages_total)
      return Error{ErrorCode::mismatch, fmt::format("rank {}", member.state.rank),
                   fmt::format("model {:016x} with {} pages", info.config_hash, info.pages_total),
                   fmt::format("{:016x} with {} pages as on rank 0", group.info.config_hash, group.info.pages_total)};
    group.workers.push_back(member.worker);
  }
  // A sequence that the pool of pages cannot hold alone is as impossible as one beyond the context.
  group.info.max_positions =
      std::min<std::int64_t>(group.info.max_positions, group.info.pages_total * group.info.page_tokens);
  return group;
}

std::vector<RankReport> RankRoster::reports() const {
  std::vector<RankReport> reports;
  for (const Member& member : members_)
    reports.push_back({member.state.rank, member.state.state, member.state.progress, member.state.detail});
  return reports;
}

std::string make_run_id() {
  std::random_device random;
  return fmt::format("{:08x}{:08x}", random(), random());
}

}  // namespace tandem::actors
