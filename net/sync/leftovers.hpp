// What killed processes leave in a model folder, and the lock by which a receiver knows that nobody needs it.
//
// Temporary files of files that were being replaced have names of their own, so nobody comes upon them again. Those of
// journals are removed by the first receiver of a folder; nonces and receipts, which other processes write without a
// lock, when they are an hour old: they live for seconds.
#pragma once

#include <chrono>
#include <filesystem>

namespace tandem::net::sync {

inline constexpr std::chrono::hours leftover_age{1};

// Removes nonces, and temporary files of receipts, that are older than leftover_age.
void remove_old_leftovers(const std::filesystem::path& folder);

// A receiver's share of the lock on its folder, held as long as the object lives. Whoever finds that nobody else has a
// share removes all leftovers. File systems that cannot lock a folder keep theirs.
class ReceiverLock {
 public:
  explicit ReceiverLock(const std::filesystem::path& folder);
  ReceiverLock(const ReceiverLock&) = delete;
  ReceiverLock& operator=(const ReceiverLock&) = delete;
  ~ReceiverLock();

 private:
  int descriptor_;
};

}  // namespace tandem::net::sync
