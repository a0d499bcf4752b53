// What killed processes leave in a model folder, and the lock by which a receiver knows that nobody needs it.
//
// Temporary files of journals, nonces and receipts may be of names that nobody writes again: their writers' locks tell
// whether they are needed (engram/durable_file.hpp). Nonces themselves, which live for seconds, go when they are an
// hour old.
#pragma once

#include <chrono>
#include <filesystem>

namespace tandem::net::sync {

inline constexpr std::chrono::hours leftover_age{1};

// Removes nonces that are older than leftover_age, and temporary files of nonces and receipts whose writers are dead.
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
