// BodyBudget: the bytes of request bodies that all connections together may hold. BodyShare: what one of them holds.
//
// A single body has its own limit; many at once must not add up to the machine's memory. Bytes are counted as they
// arrive, so a client that announces much and sends little holds little.
#pragma once

#include <cstddef>
#include <mutex>

namespace tandem::net::http {

class BodyBudget {
 public:
  explicit BodyBudget(std::size_t limit) : limit_(limit) {}
  std::size_t held() const;

 private:
  friend class BodyShare;
  // Replaces a share of `from` bytes by one of `to`; false if that is too much.
  bool change(std::size_t from, std::size_t to);

  const std::size_t limit_;
  mutable std::mutex mutex_;
  std::size_t held_ = 0;
};

class BodyShare {
 public:
  // `budget` must outlive this.
  explicit BodyShare(BodyBudget& budget) : budget_(budget) {}
  ~BodyShare() { release(); }
  BodyShare(const BodyShare&) = delete;
  BodyShare& operator=(const BodyShare&) = delete;

  // Returns whether `bytes` would fit now; holds nothing.
  bool fits(std::size_t bytes) const;
  // Holds `bytes` in all from now on; false, and no change, if the budget has no room.
  bool resize(std::size_t bytes);
  void release() { resize(0); }

 private:
  BodyBudget& budget_;
  std::size_t bytes_ = 0;
};

}  // namespace tandem::net::http
