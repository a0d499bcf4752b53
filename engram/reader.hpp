// Reader: fetches Engram rows in the background, so that the forward pass finds them ready.
//
// Row numbers depend on token ids only: a caller asks for rows as soon as it knows the tokens and collects them when
// the layer runs. One thread reads the tickets in the order of prefetch(); an optional cache of recent rows sits before
// the stores. Cached or not, rows are the same bytes: a row never changes.
//
// Handing a ticket over and its rows back wakes a sleeping thread twice, which takes as long as several reads. Where
// cores are many, both sides look for each other's news for a short while before they sleep.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <span>
#include <thread>
#include <vector>

#include "engram/row_store.hpp"

namespace tandem::engram {

// Names one prefetch() until it is waited for or dropped.
enum class Ticket : std::uint64_t {};

// How long each side keeps a core busy before it sleeps; 0: it sleeps at once.
struct SpinLimits {
  std::chrono::microseconds idle_reader{0};  // the thread behind a ticket, for the next one
  // wait(), for its rows: worth it up to the time of a decoding step's reads.
  std::chrono::microseconds waiting_caller{0};
};

// Returns limits that a machine of so many cores can afford: nothing below 8, where a spinning thread takes the core
// that the other one needs.
SpinLimits affordable_spin(unsigned cores) noexcept;

struct ReaderOptions {
  std::size_t rows_pending_max = 1 << 20;  // rows asked for and not yet collected; more are refused (264 B each)
  std::size_t cache_rows = 65'536;         // recent rows kept for each table, at most twice its rows; 0 = no cache
  SpinLimits spin = affordable_spin(std::thread::hardware_concurrency());
};

// Rows of one ticket in the order of its ids: codes [n][head_dim], scales [n][head_dim/32].
struct Rows {
  std::vector<E4m3> codes;
  std::vector<E8m0> scales;
};

struct ReaderStats {
  std::uint64_t tickets = 0;  // read to the end, with success or not
  std::uint64_t rows = 0;     // rows asked for, those without content excluded
  std::uint64_t cache_hits = 0;
  std::uint64_t failures = 0;           // tickets that ended in an error
  std::chrono::nanoseconds reading{0};  // time spent in stores
  std::chrono::nanoseconds waiting{0};  // time that wait() callers were held up: 0 means fully overlapped
  double hit_rate() const noexcept {
    return rows == 0 ? 0.0 : static_cast<double>(cache_hits) / static_cast<double>(rows);
  }
};

class Reader {
 public:
  // Takes one store a table; tables are named by their place in the list.
  explicit Reader(std::vector<std::unique_ptr<RowStore>> tables, ReaderOptions options = {});
  // Finishes the read in progress, drops all others. Nobody may be inside wait().
  ~Reader();
  Reader(const Reader&) = delete;
  Reader& operator=(const Reader&) = delete;

  std::size_t tables() const noexcept;
  const TableInfo& info(std::size_t table) const noexcept;

  // Queues rows of one table. Thread-safe, never blocks on I/O. Errors: invalid_argument (no such table), resource
  // (rows_pending_max).
  Result<Ticket> prefetch(std::size_t table, std::vector<RowId> ids);
  // Returns the rows and ends the ticket; an error of the store ends it too. Errors: those of RowStore::read(), timeout
  // (the ticket stays valid), invalid_argument (no such ticket).
  Result<Rows> wait(Ticket ticket, std::chrono::milliseconds timeout);
  // Ends a ticket whose rows nobody wants any more. Unknown tickets are ignored.
  void drop(Ticket ticket) noexcept;

  ReaderStats stats() const;

 private:
  class State;
  std::unique_ptr<State> state_;
};

}  // namespace tandem::engram
