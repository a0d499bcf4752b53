// Ranks as threads inside a test. Boost.Test's macros are for the test's own thread: code that runs on ranks uses
// demand().
#pragma once

#include <functional>
#include <stdexcept>
#include <string>

#include "gpu/comm/communicator.hpp"

namespace tandem::gpu::test {

// Ends the test (its rank first) with `message` unless `holds`.
inline void demand(bool holds, const std::string& message) {
  if (!holds) throw std::runtime_error(message);
}

// Calls body(member) for every member of a group of threads and waits for all; rethrows the first failure here.
void on_each_rank(int ranks, const std::function<void(Communicator& member)>& body);

}  // namespace tandem::gpu::test
