// A sum behind a mutex: a share only grows if the sum stays within the limit.
#include "net/http/body_budget.hpp"

namespace tandem::net::http {

std::size_t BodyBudget::held() const {
  std::lock_guard lock{mutex_};
  return held_;
}

bool BodyBudget::change(std::size_t from, std::size_t to) {
  std::lock_guard lock{mutex_};
  if (to > from && to - from > limit_ - held_) return false;
  held_ = held_ - from + to;
  return true;
}

bool BodyShare::fits(std::size_t bytes) const {
  return bytes <= bytes_ || budget_.held() + (bytes - bytes_) <= budget_.limit_;
}

bool BodyShare::resize(std::size_t bytes) {
  if (!budget_.change(bytes_, bytes)) return false;
  bytes_ = bytes;
  return true;
}

}  // namespace tandem::net::http
