// One background thread, a queue of tickets in order, a cache in front of each store.
//
// A ticket is queued, being read, done, or gone; wait() and drop() end it. All of that lives under one mutex; stores
// and caches are touched by the background thread alone, outside the mutex. A side that spins watches a count of the
// other side's events outside the mutex and decides nothing by it: what it finds under the mutex afterwards does.
#include "engram/reader.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <deque>
#include <exception>
#include <map>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

#include "engram/row_cache.hpp"

namespace tandem::engram {
namespace {

using Clock = std::chrono::steady_clock;

struct Table {
  std::unique_ptr<RowStore> store;
  RowCache cache;
};

RowBlock row_at(Rows& rows, const RowShape& shape, std::size_t place) {
  const auto head_dim = static_cast<std::size_t>(shape.head_dim);
  const auto scales = static_cast<std::size_t>(shape.scales());
  return {std::span(rows.codes).subspan(place * head_dim, head_dim),
          std::span(rows.scales).subspan(place * scales, scales)};
}

Rows make_rows(const RowShape& shape, std::size_t count) {
  return {std::vector<E4m3>(count * static_cast<std::size_t>(shape.head_dim)),
          std::vector<E8m0>(count * static_cast<std::size_t>(shape.scales()))};
}

// What one ticket cost, for the statistics.
struct Account {
  std::uint64_t rows = 0;
  std::uint64_t cache_hits = 0;
  std::chrono::nanoseconds reading{0};
};

// Fetches the rows of one ticket: what the cache has, then the rest from the store in one batch.
Result<Rows> fetch(Table& table, std::span<const RowId> ids, Account& account) {
  const RowShape shape = table.store->info().shape;
  Rows out = make_rows(shape, ids.size());
  std::vector<RowId> missing;
  std::vector<std::size_t> places;
  for (std::size_t place = 0; place < ids.size(); ++place) {
    if (ids[place] == no_row) continue;
    ++account.rows;
    if (table.cache.find(ids[place], row_at(out, shape, place))) {
      ++account.cache_hits;
    } else {
      missing.push_back(ids[place]);
      places.push_back(place);
    }
  }
  if (missing.empty()) return out;
  Rows read = make_rows(shape, missing.size());
  const auto started = Clock::now();
  auto done = table.store->read(missing, {read.codes, read.scales});
  account.reading = Clock::now() - started;
  if (!done) return done.error();
  // A prompt's bulk would throw out the working set of decoding.
  const bool is_kept = missing.size() <= table.cache.capacity() / 4;
  for (std::size_t i = 0; i < missing.size(); ++i) {
    const RowBlock from = row_at(read, shape, i);
    const RowBlock to = row_at(out, shape, places[i]);
    std::copy(from.codes.begin(), from.codes.end(), to.codes.begin());
    std::copy(from.scales.begin(), from.scales.end(), to.scales.begin());
    if (is_kept) table.cache.insert(missing[i], from.codes, from.scales);
  }
  return out;
}

// What is thrown for want of memory ends the ticket, not the process.
Result<Rows> try_fetch(Table& table, std::span<const RowId> ids, Account& account) {
  try {
    return fetch(table, ids, account);
  } catch (const std::exception& failure) {
    return Error{ErrorCode::resource, "Engram reader", failure.what(), fmt::format("memory for {} rows", ids.size())};
  }
}

// Lets the other thread of this core go first for an instant.
void relax() noexcept {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("isb");  // some 20 ns; `yield` does nothing on cores with one thread
#endif
}

// Spins as long as it pays: a thread that was taken off its core meanwhile has found a busy machine, where spinning
// only keeps the other side from running, and nobody spins for a second.
class Spinner {
 public:
  // Watches a count of events until it is another than `seen`, the time is over, or the machine is busy.
  void watch(const std::atomic<std::uint64_t>& events, std::uint64_t seen, Clock::time_point end) noexcept {
    for (auto now = Clock::now(); events.load(std::memory_order_acquire) == seen && now < end;) {
      for (int i = 0; i < 8; ++i) relax();
      const auto before = std::exchange(now, Clock::now());
      if (now - before < off_the_core) continue;
      rest_until_.store((now + rest).time_since_epoch(), std::memory_order_relaxed);
      return;
    }
  }
  bool is_worth_it() const noexcept {
    return Clock::now().time_since_epoch() >= rest_until_.load(std::memory_order_relaxed);
  }

 private:
  static constexpr std::chrono::microseconds off_the_core{100};  // interrupts are shorter, time slices longer
  static constexpr std::chrono::seconds rest{1};
  std::atomic<Clock::duration> rest_until_{Clock::duration::min()};
};

// Takes the lock of a section that is over in an instant; who spins elsewhere does not go to sleep for it either.
void acquire(std::unique_lock<std::mutex>& lock, const SpinLimits& spin) {
  const int tries = spin.waiting_caller.count() > 0 ? 200 : 0;
  for (int i = 0; i < tries; ++i) {
    if (lock.try_lock()) return;
    relax();
  }
  lock.lock();
}

Error no_ticket(Ticket ticket) {
  return {ErrorCode::invalid_argument, "Engram reader", fmt::format("ticket {}", static_cast<std::uint64_t>(ticket)),
          "a ticket that was neither waited for nor dropped"};
}

}  // namespace

class Reader::State {
 public:
  State(std::vector<std::unique_ptr<RowStore>> stores, ReaderOptions options) : options_(options) {
    for (auto& store : stores) {
      const TableInfo info = store->info();
      // Twice the rows of a small table hold nearly all of them, though some meet in one set.
      const auto rows_at_most = 2 * static_cast<std::size_t>(info.last_row - info.first_row);
      tables_.push_back({std::move(store), RowCache(info.shape, std::min(options.cache_rows, rows_at_most))});
    }
    thread_ = std::jthread([this](const std::stop_token& stop) { work(stop); });
  }

  const std::vector<Table>& tables() const noexcept { return tables_; }

  Result<Ticket> prefetch(std::size_t table, std::vector<RowId> ids) {
    std::unique_lock lock(mutex_, std::defer_lock);
    acquire(lock, options_.spin);
    if (table >= tables_.size()) {
      return Error{ErrorCode::invalid_argument, "Engram reader", fmt::format("table {}", table),
                   fmt::format("below {}", tables_.size())};
    }
    if (ids.size() > options_.rows_pending_max - rows_pending_) {
      return Error{ErrorCode::resource, "Engram reader",
                   fmt::format("{} rows pending, {} more", rows_pending_, ids.size()),
                   fmt::format("at most {}", options_.rows_pending_max)};
    }
    rows_pending_ += ids.size();
    const Ticket ticket{next_ticket_++};
    const std::size_t rows = ids.size();
    jobs_.emplace(ticket, Job{table, rows, std::move(ids), std::nullopt});
    queue_.push_back(ticket);
    asked_.fetch_add(1, std::memory_order_release);
    has_work_.notify_one();
    return ticket;
  }

  Result<Rows> wait(Ticket ticket, std::chrono::milliseconds timeout) {
    const auto started = Clock::now();
    std::unique_lock lock(mutex_, std::defer_lock);
    acquire(lock, options_.spin);
    const auto is_settled = [&] {
      const auto job = jobs_.find(ticket);
      return job == jobs_.end() || job->second.rows.has_value();
    };
    const auto spin_end = started + std::min<Clock::duration>(options_.spin.waiting_caller, timeout);
    while (!is_settled() && Clock::now() < spin_end && spinner_.is_worth_it()) {
      const std::uint64_t seen = ended_.load(std::memory_order_relaxed);
      lock.unlock();
      spinner_.watch(ended_, seen, spin_end);
      acquire(lock, options_.spin);
    }
    const bool settled = is_done_.wait_until(lock, started + timeout, is_settled);
    stats_.waiting += Clock::now() - started;
    const auto job = jobs_.find(ticket);
    if (job == jobs_.end()) return no_ticket(ticket);
    if (!settled) {
      return Error{ErrorCode::timeout, "Engram rows", fmt::format("not read within {} ms", timeout.count()), ""};
    }
    Result<Rows> rows = std::move(*job->second.rows);
    forget(job);
    return rows;
  }

  void drop(Ticket ticket) noexcept {
    const std::lock_guard lock(mutex_);
    if (const auto job = jobs_.find(ticket); job != jobs_.end()) forget(job);
    announce_end();
  }

  ReaderStats stats() const {
    const std::lock_guard lock(mutex_);
    return stats_;
  }

 private:
  struct Job {
    std::size_t table = 0;
    std::size_t rows_asked = 0;
    std::vector<RowId> ids;            // empty once the thread took them
    std::optional<Result<Rows>> rows;  // set when it is done
  };
  using Jobs = std::map<Ticket, Job>;

  void forget(Jobs::iterator job) {
    rows_pending_ -= job->second.rows_asked;
    jobs_.erase(job);
  }

  // Returns whether there is a ticket to read; false: the reader is to end.
  bool await_ticket(std::unique_lock<std::mutex>& lock, const std::stop_token& stop) {
    if (queue_.empty() && options_.spin.idle_reader.count() > 0 && spinner_.is_worth_it()) {
      const std::uint64_t seen = asked_.load(std::memory_order_relaxed);
      lock.unlock();
      spinner_.watch(asked_, seen, Clock::now() + options_.spin.idle_reader);
      acquire(lock, options_.spin);
    }
    return has_work_.wait(lock, stop, [this] { return !queue_.empty(); });
  }

  void work(const std::stop_token& stop) {
    std::unique_lock lock(mutex_);
    while (await_ticket(lock, stop)) {
      if (stop.stop_requested()) return;
      const Ticket ticket = queue_.front();
      queue_.pop_front();
      const auto waiting = jobs_.find(ticket);
      if (waiting == jobs_.end()) continue;  // dropped
      const std::size_t table = waiting->second.table;
      const std::vector<RowId> ids = std::move(waiting->second.ids);
      lock.unlock();
      Account account;
      Result<Rows> rows = try_fetch(tables_[table], ids, account);
      acquire(lock, options_.spin);
      settle(ticket, std::move(rows), account);
    }
  }

  void settle(Ticket ticket, Result<Rows> rows, const Account& account) {
    ++stats_.tickets;
    stats_.rows += account.rows;
    stats_.cache_hits += account.cache_hits;
    stats_.reading += account.reading;
    stats_.failures += rows ? 0 : 1;
    if (const auto job = jobs_.find(ticket); job != jobs_.end()) job->second.rows = std::move(rows);
    announce_end();
  }

  void announce_end() noexcept {
    ended_.fetch_add(1, std::memory_order_release);
    is_done_.notify_all();
  }

  const ReaderOptions options_;
  std::vector<Table> tables_;
  mutable std::mutex mutex_;  // guards everything below
  std::condition_variable_any has_work_;
  std::condition_variable is_done_;
  Jobs jobs_;
  std::deque<Ticket> queue_;
  std::size_t rows_pending_ = 0;
  std::uint64_t next_ticket_ = 1;
  ReaderStats stats_;
  // Counts of events, changed under the mutex, watched without it.
  std::atomic<std::uint64_t> asked_{0};  // tickets asked for
  std::atomic<std::uint64_t> ended_{0};  // tickets read or dropped
  Spinner spinner_;
  std::jthread thread_;  // last: stops before what it uses is gone
};

SpinLimits affordable_spin(unsigned cores) noexcept {
  using std::chrono::microseconds;
  constexpr unsigned enough_cores = 8;
  if (cores < enough_cores) return {};
  return {microseconds{100}, microseconds{1'500}};
}

Reader::Reader(std::vector<std::unique_ptr<RowStore>> tables, ReaderOptions options)
    : state_(std::make_unique<State>(std::move(tables), options)) {}

Reader::~Reader() = default;

std::size_t Reader::tables() const noexcept {
  return state_->tables().size();
}

const TableInfo& Reader::info(std::size_t table) const noexcept {
  return state_->tables()[table].store->info();
}

Result<Ticket> Reader::prefetch(std::size_t table, std::vector<RowId> ids) {
  return state_->prefetch(table, std::move(ids));
}

Result<Rows> Reader::wait(Ticket ticket, std::chrono::milliseconds timeout) {
  return state_->wait(ticket, timeout);
}

void Reader::drop(Ticket ticket) noexcept {
  state_->drop(ticket);
}

ReaderStats Reader::stats() const {
  return state_->stats();
}

}  // namespace tandem::engram
