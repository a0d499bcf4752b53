// The set of open connections behind one mutex.
#include "net/http/connection.hpp"

namespace tandem::net::http {

bool ConnectionGate::enter(const std::shared_ptr<Connection>& connection) {
  std::lock_guard lock{mutex_};
  if (is_closed_ || open_.size() >= limit_) return false;
  return open_.insert(connection).second;
}

void ConnectionGate::leave(const std::shared_ptr<Connection>& connection) {
  std::lock_guard lock{mutex_};
  open_.erase(connection);
  if (open_.empty()) emptied_.notify_all();
}

void ConnectionGate::close() {
  std::lock_guard lock{mutex_};
  is_closed_ = true;
}

std::vector<std::shared_ptr<Connection>> ConnectionGate::all() const {
  std::lock_guard lock{mutex_};
  return {open_.begin(), open_.end()};
}

std::size_t ConnectionGate::size() const {
  std::lock_guard lock{mutex_};
  return open_.size();
}

bool ConnectionGate::wait_empty(std::chrono::steady_clock::time_point deadline) {
  std::unique_lock lock{mutex_};
  return emptied_.wait_until(lock, deadline, [this] { return open_.empty(); });
}

}  // namespace tandem::net::http
