// What must hold of whatever a parser accepted: otherwise the input is kept by libFuzzer, and a replay fails.
#pragma once

#include <cstdlib>

namespace tandem::fuzz {

inline void require(bool holds) {
  if (!holds) std::abort();
}

}  // namespace tandem::fuzz
