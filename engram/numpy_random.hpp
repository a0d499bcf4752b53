// NumPy's default random generator, bit for bit: what numpy.random.default_rng(seed).integers(0, bound) draws for
// int64.
//
// The Engram hash multipliers of a model are defined as draws of this generator, so they are recomputed, not stored.
// Sources: numpy SeedSequence (O'Neill's seed_seq alternative, pool of 4 words), PCG64 (XSL-RR 128/64), Lemire's
// bounded method.
#pragma once

#include <cstdint>

namespace tandem::engram {

class NumpyRandom {
 public:
  // Same stream as numpy.random.default_rng(seed).
  explicit NumpyRandom(std::uint64_t seed) noexcept;

  // Returns the next 64 random bits.
  std::uint64_t next() noexcept;
  // Returns a number uniform in [0, bound); bound > 0.
  std::uint64_t below(std::uint64_t bound) noexcept;

 private:
  __extension__ using Wide = unsigned __int128;

  void advance() noexcept;

  Wide state_ = 0;
  Wide increment_ = 0;
};

}  // namespace tandem::engram
