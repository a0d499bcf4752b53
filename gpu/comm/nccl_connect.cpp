// Rank 0's id goes round over the control group; then every rank connects and tells how that went. Nobody leaves early:
// a rank that failed still tells, so that the others fail with its words and not by a deadline of their own.
#include "gpu/comm/nccl_connect.hpp"

#include <fmt/format.h>
#include <poll.h>

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include "gpu/comm/nccl_end.hpp"

namespace tandem::gpu::comm {
namespace {

using Clock = std::chrono::steady_clock;

constexpr auto abort_timeout = std::chrono::seconds(5);  // then what frees the group is left behind

// What one rank tells of one stage, as it travels.
struct Outcome {
  std::int32_t has_failed = 0;
  std::int32_t code = 0;  // an ErrorCode
  char found[248] = {};   // its words, cut
  NcclId id{};            // of rank 0
};

Outcome outcome_of(const Result<NcclId>& own) {
  Outcome outcome;
  if (own) {
    outcome.id = *own;
    return outcome;
  }
  outcome.has_failed = 1;
  outcome.code = static_cast<std::int32_t>(own.error().code);
  const std::string& found = own.error().found;
  std::memcpy(outcome.found, found.data(), std::min(found.size(), sizeof(outcome.found) - 1));
  return outcome;
}

// Returns the rank whose failure explains the others', or the number of ranks: who gave up waiting did so for another.
std::size_t first_cause(const std::vector<Outcome>& all) {
  constexpr auto late = static_cast<std::int32_t>(ErrorCode::timeout);
  std::size_t found = all.size();
  for (std::size_t rank = all.size(); rank-- > 0;) {
    if (all[rank].has_failed == 0) continue;
    if (found == all.size() || all[rank].code != late || all[found].code == late) found = rank;
  }
  return found;
}

// Every rank tells its outcome; all get rank 0's id, or the error of the rank that caused it.
Result<NcclId> agree(Communicator& control, const Result<NcclId>& own) {
  const Outcome told = outcome_of(own);
  std::vector<Outcome> all(static_cast<std::size_t>(control.size()));
  const auto met = control.all_gather(std::as_bytes(std::span(&told, 1)), std::as_writable_bytes(std::span(all)));
  if (!met) return met.error();
  const std::size_t failed = first_cause(all);
  if (failed == all.size()) return all.front().id;
  Outcome& cause = all[failed];
  cause.found[sizeof(cause.found) - 1] = '\0';  // bytes of another process
  return nccl_error(static_cast<ErrorCode>(cause.code), static_cast<int>(failed), cause.found,
                    fmt::format("a group of {} ranks", all.size()));
}

Result<void> wait_connected(NcclApi& nccl, NcclGroup group, NcclStatus status, const NcclOptions& options) {
  const auto deadline = Clock::now() + options.connect_timeout;
  while (status.state == NcclStatus::running) {
    if (options.stop != nullptr && options.stop->load())
      return Error{ErrorCode::cancelled, "", "stopped while it connected", ""};
    if (Clock::now() >= deadline) {
      return Error{ErrorCode::timeout, "", fmt::format("not connected within {} ms", options.connect_timeout.count()),
                   ""};
    }
    ::poll(nullptr, 0, 1);  // the library has no descriptor to wait for
    status = nccl.state(group);
  }
  if (status.state == NcclStatus::failed) return Error{ErrorCode::unavailable, "", status.why, ""};
  return {};
}

}  // namespace

Error nccl_error(ErrorCode code, int rank, std::string found, std::string expected) {
  return {code, fmt::format("NCCL, rank {}", rank), std::move(found), std::move(expected)};
}

Result<NcclGroup> connect_nccl(NcclApi& nccl, Communicator& control, const NcclOptions& options) {
  Result<NcclId> own = NcclId{};
  if (const auto selected = nccl.select(options.device); !selected) own = selected.error();
  if (own && control.rank() == 0) own = nccl.make_id();
  const auto id = agree(control, own);
  if (!id) return id.error();
  NcclGroup group = nullptr;
  const NcclStatus begun = nccl.begin({*id, control.rank(), control.size()}, group);
  const auto connected = wait_connected(nccl, group, begun, options);
  const auto agreed = agree(control, connected ? Result<NcclId>(*id) : Result<NcclId>(connected.error()));
  if (agreed) return group;
  if (group != nullptr) {
    NcclEnd end;
    end.abort(nccl, group, options.device);
    (void)end.wait(abort_timeout);
  }
  return agreed.error();
}

}  // namespace tandem::gpu::comm
