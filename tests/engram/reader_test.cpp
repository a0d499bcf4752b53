// Prefetched rows are the store's rows, with and without the cache; tickets end once; queues are bounded; errors
// arrive.
#include "engram/reader.hpp"

#include <array>
#include <boost/test/unit_test.hpp>
#include <condition_variable>
#include <cstring>
#include <thread>

#include "engram/row_cache.hpp"

using namespace tandem;
using namespace tandem::engram;
using namespace std::chrono_literals;

namespace {

constexpr int head_dim = 32;
constexpr auto soon = 10s;

// A store whose row r consists of the byte r; it can be held up, made to fail, and counts what it reads.
class MemoryStore final : public RowStore {
 public:
  explicit MemoryStore(std::int64_t rows) : info_{{head_dim}, rows, 0, rows} {}
  const TableInfo& info() const noexcept override { return info_; }

  Result<void> read(std::span<const RowId> ids, RowBlock out) override {
    std::unique_lock lock(mutex_);
    ++reads_;
    changed_.notify_all();
    changed_.wait_for(lock, soon, [this] { return !held_; });
    if (starved_) throw std::bad_alloc();
    if (failing_) return Error{ErrorCode::io, "memory", "injected failure", ""};
    for (std::size_t i = 0; i < ids.size(); ++i) {
      std::memset(out.codes.data() + i * head_dim, static_cast<int>(index_of(ids[i]) & 255), head_dim);
      std::memset(out.scales.data() + i, static_cast<int>(index_of(ids[i]) & 255), 1);
    }
    rows_read_ += ids.size();
    return {};
  }

  void hold(bool held) {
    const std::lock_guard lock(mutex_);
    held_ = held;
    changed_.notify_all();
  }
  void fail(bool failing) {
    const std::lock_guard lock(mutex_);
    failing_ = failing;
  }
  void starve(bool starved) {
    const std::lock_guard lock(mutex_);
    starved_ = starved;
  }
  void wait_for_reads(int reads) {
    std::unique_lock lock(mutex_);
    BOOST_REQUIRE(changed_.wait_for(lock, soon, [&] { return reads_ >= reads; }));
  }
  std::size_t rows_read() {
    const std::lock_guard lock(mutex_);
    return rows_read_;
  }

 private:
  TableInfo info_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool held_ = false;
  bool failing_ = false;
  bool starved_ = false;
  int reads_ = 0;
  std::size_t rows_read_ = 0;
};

struct Setup {
  explicit Setup(ReaderOptions options = {}, int tables = 1) {
    std::vector<std::unique_ptr<RowStore>> list;
    for (int i = 0; i < tables; ++i) {
      auto store = std::make_unique<MemoryStore>(1'000'000);
      stores.push_back(store.get());
      list.push_back(std::move(store));
    }
    reader = std::make_unique<Reader>(std::move(list), options);
  }
  std::vector<MemoryStore*> stores;
  std::unique_ptr<Reader> reader;
};

std::vector<RowId> ids_of(const std::vector<int>& rows) {
  std::vector<RowId> ids;
  for (const int row : rows) ids.push_back(RowId{row});
  return ids;
}

void check_rows_of(const Result<Rows>& rows, const std::vector<int>& expected) {
  BOOST_REQUIRE_MESSAGE(rows.has_value(), (rows ? "" : rows.error().message()));
  BOOST_REQUIRE_EQUAL(rows->codes.size(), expected.size() * head_dim);
  BOOST_REQUIRE_EQUAL(rows->scales.size(), expected.size());
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const int byte = expected[i] < 0 ? 0 : expected[i] & 255;
    BOOST_TEST(static_cast<int>(rows->codes[i * head_dim]) == byte);
    BOOST_TEST(static_cast<int>(rows->codes[(i + 1) * head_dim - 1]) == byte);
    BOOST_TEST(static_cast<int>(rows->scales[i]) == byte);
  }
}

}  // namespace

BOOST_AUTO_TEST_SUITE(reader)

BOOST_AUTO_TEST_CASE(rows_come_back_in_the_order_of_their_ids) {
  Setup s;
  const std::vector<int> rows{9, -1, 3, 9, 255, 256};
  const auto ticket = s.reader->prefetch(0, ids_of(rows));
  BOOST_REQUIRE(ticket.has_value());
  check_rows_of(s.reader->wait(*ticket, soon), rows);
}

BOOST_AUTO_TEST_CASE(tickets_may_be_collected_in_any_order_and_from_any_table) {
  Setup s({}, 2);
  const auto first = s.reader->prefetch(0, ids_of({1, 2}));
  const auto second = s.reader->prefetch(1, ids_of({3}));
  const auto nothing = s.reader->prefetch(1, {});
  check_rows_of(s.reader->wait(*second, soon), {3});
  check_rows_of(s.reader->wait(*nothing, soon), {});
  check_rows_of(s.reader->wait(*first, soon), {1, 2});
}

BOOST_AUTO_TEST_CASE(cached_rows_are_the_same_and_are_not_read_again) {
  Setup s({.cache_rows = 400});
  std::vector<int> rows;
  for (int row = 0; row < 60; ++row) rows.push_back(row * 7);
  for (int round = 0; round < 3; ++round)
    check_rows_of(s.reader->wait(*s.reader->prefetch(0, ids_of(rows)), soon), rows);
  BOOST_TEST(s.stores[0]->rows_read() == 60U);
  BOOST_TEST(s.reader->stats().cache_hits == 120U);
  BOOST_TEST(s.reader->stats().hit_rate() == 2.0 / 3.0, boost::test_tools::tolerance(1e-9));
}

BOOST_AUTO_TEST_CASE(a_bulk_read_does_not_displace_the_cached_rows) {
  Setup s({.cache_rows = 16});
  check_rows_of(s.reader->wait(*s.reader->prefetch(0, ids_of({1, 2, 3})), soon), {1, 2, 3});
  std::vector<int> bulk;
  for (int row = 100; row < 300; ++row) bulk.push_back(row);
  check_rows_of(s.reader->wait(*s.reader->prefetch(0, ids_of(bulk)), soon), bulk);
  check_rows_of(s.reader->wait(*s.reader->prefetch(0, ids_of({1, 2, 3})), soon), {1, 2, 3});
  BOOST_TEST(s.reader->stats().cache_hits == 3U);
}

BOOST_AUTO_TEST_CASE(only_machines_with_many_cores_spin) {
  for (const unsigned cores : {0U, 1U, 2U, 7U}) {
    BOOST_TEST(affordable_spin(cores).idle_reader.count() == 0);
    BOOST_TEST(affordable_spin(cores).waiting_caller.count() == 0);
  }
  BOOST_TEST((affordable_spin(8).idle_reader > 0us && affordable_spin(8).idle_reader < 1ms));
  BOOST_TEST((affordable_spin(20).waiting_caller > 0us && affordable_spin(20).waiting_caller < 10ms));
}

// Two callers, so that each also meets the other's events, and gaps on both sides of the limits.
BOOST_AUTO_TEST_CASE(sides_that_spin_lose_no_ticket_and_no_row) {
  for (const auto limit : {1us, 50us, 2'000us}) {
    Setup s({.cache_rows = 0, .spin = {limit, limit}});
    std::array<int, 2> wrong{};
    const auto look_up = [&](int caller) {
      for (int i = 0; i < 300; ++i) {
        const auto ticket = s.reader->prefetch(0, ids_of({i, caller}));
        const auto rows = ticket ? s.reader->wait(*ticket, soon) : Result<Rows>(ticket.error());
        const bool is_right =
            rows && static_cast<int>(rows->codes[0]) == (i & 255) && static_cast<int>(rows->codes[head_dim]) == caller;
        wrong[static_cast<std::size_t>(caller)] += is_right ? 0 : 1;
        if (i % 50 == 0) std::this_thread::yield();
      }
    };
    {
      const std::jthread other([&] { look_up(1); });
      look_up(0);
    }
    BOOST_TEST(wrong[0] == 0);
    BOOST_TEST(wrong[1] == 0);
    BOOST_TEST(s.reader->stats().tickets == 600U);
  }
}

BOOST_AUTO_TEST_CASE(a_spinning_caller_keeps_its_timeout_and_gets_its_rows_after_it_slept) {
  Setup s({.spin = {0us, 10s}});
  s.stores[0]->hold(true);
  const auto ticket = s.reader->prefetch(0, ids_of({4}));
  const auto began = std::chrono::steady_clock::now();
  const auto early = s.reader->wait(*ticket, 2ms);
  BOOST_TEST((std::chrono::steady_clock::now() - began < 5s));
  BOOST_REQUIRE(!early);
  BOOST_TEST((early.error().code == ErrorCode::timeout));
  s.stores[0]->hold(false);
  check_rows_of(s.reader->wait(*ticket, soon), {4});

  Setup brief({.spin = {0us, 1us}});
  brief.stores[0]->hold(true);
  const auto late = brief.reader->prefetch(0, ids_of({5}));
  brief.stores[0]->wait_for_reads(1);
  MemoryStore* store = brief.stores[0];
  std::jthread releaser([store] { store->hold(false); });
  check_rows_of(brief.reader->wait(*late, soon), {5});
}

BOOST_AUTO_TEST_CASE(without_a_cache_every_row_is_read_every_time) {
  Setup s({.cache_rows = 0});
  for (int round = 0; round < 2; ++round) check_rows_of(s.reader->wait(*s.reader->prefetch(0, ids_of({5})), soon), {5});
  BOOST_TEST(s.stores[0]->rows_read() == 2U);
}

BOOST_AUTO_TEST_CASE(a_late_ticket_times_out_and_can_still_be_collected) {
  Setup s;
  s.stores[0]->hold(true);
  const auto ticket = s.reader->prefetch(0, ids_of({4}));
  const auto early = s.reader->wait(*ticket, 1ms);
  BOOST_REQUIRE(!early);
  BOOST_TEST((early.error().code == ErrorCode::timeout));
  s.stores[0]->hold(false);
  check_rows_of(s.reader->wait(*ticket, soon), {4});
}

BOOST_AUTO_TEST_CASE(a_ticket_ends_once) {
  Setup s;
  const auto ticket = s.reader->prefetch(0, ids_of({4}));
  check_rows_of(s.reader->wait(*ticket, soon), {4});
  BOOST_TEST((s.reader->wait(*ticket, soon).error().code == ErrorCode::invalid_argument));
  BOOST_TEST((s.reader->wait(Ticket{12345}, soon).error().code == ErrorCode::invalid_argument));
  s.reader->drop(*ticket);
}

BOOST_AUTO_TEST_CASE(the_queue_is_bounded_until_rows_are_collected_or_dropped) {
  Setup s({.rows_pending_max = 10});
  const auto first = s.reader->prefetch(0, std::vector<RowId>(6, RowId{1}));
  const auto second = s.reader->prefetch(0, std::vector<RowId>(4, RowId{2}));
  BOOST_REQUIRE((first.has_value() && second.has_value()));
  BOOST_TEST((s.reader->prefetch(0, ids_of({1})).error().code == ErrorCode::resource));
  BOOST_TEST(s.reader->wait(*first, soon).has_value());
  s.reader->drop(*second);
  BOOST_TEST(s.reader->prefetch(0, std::vector<RowId>(10, RowId{3})).has_value());
  BOOST_TEST((s.reader->prefetch(1, {}).error().code == ErrorCode::invalid_argument));
}

BOOST_AUTO_TEST_CASE(a_store_error_reaches_its_ticket_and_only_that) {
  Setup s({.cache_rows = 64});
  s.stores[0]->fail(true);
  const auto bad = s.reader->wait(*s.reader->prefetch(0, ids_of({1})), soon);
  BOOST_REQUIRE(!bad);
  BOOST_TEST((bad.error().code == ErrorCode::io));
  s.stores[0]->fail(false);
  check_rows_of(s.reader->wait(*s.reader->prefetch(0, ids_of({1})), soon), {1});
  BOOST_TEST(s.reader->stats().failures == 1U);
  BOOST_TEST(s.reader->stats().cache_hits == 0U);
}

BOOST_AUTO_TEST_CASE(a_lack_of_memory_ends_a_ticket_and_not_the_process) {
  Setup s;
  s.stores[0]->starve(true);
  BOOST_TEST((s.reader->wait(*s.reader->prefetch(0, ids_of({1})), soon).error().code == ErrorCode::resource));
  s.stores[0]->starve(false);
  check_rows_of(s.reader->wait(*s.reader->prefetch(0, ids_of({1})), soon), {1});
}

BOOST_AUTO_TEST_CASE(destruction_ends_though_nobody_collects_what_is_queued) {
  Setup s;
  s.stores[0]->hold(true);
  for (int i = 0; i < 50; ++i) BOOST_REQUIRE(s.reader->prefetch(0, ids_of({i})).has_value());
  s.stores[0]->wait_for_reads(1);
  MemoryStore* store = s.stores[0];
  std::jthread releaser([store] { store->hold(false); });
  s.reader.reset();
}

BOOST_AUTO_TEST_CASE(a_dropped_ticket_is_not_read_any_more) {
  Setup s;
  s.stores[0]->hold(true);
  const auto first = s.reader->prefetch(0, ids_of({1}));
  const auto second = s.reader->prefetch(0, ids_of({2, 3}));
  s.stores[0]->wait_for_reads(1);
  s.reader->drop(*second);
  s.stores[0]->hold(false);
  check_rows_of(s.reader->wait(*first, soon), {1});
  check_rows_of(s.reader->wait(*s.reader->prefetch(0, ids_of({4})), soon), {4});
  BOOST_TEST(s.stores[0]->rows_read() == 2U);
}

BOOST_AUTO_TEST_CASE(the_cache_keeps_what_was_used_last) {
  RowCache cache({head_dim}, 1);  // one set of four
  std::vector<E4m3> codes(head_dim);
  std::vector<E8m0> scales(1);
  for (int row = 0; row < 4; ++row) {
    codes[0] = E4m3(row);
    cache.insert(RowId{row}, codes, scales);
  }
  BOOST_TEST(cache.find(RowId{0}, {codes, scales}));
  cache.insert(RowId{4}, codes, scales);
  BOOST_TEST(cache.find(RowId{0}, {codes, scales}));
  BOOST_TEST(static_cast<int>(codes[0]) == 0);
  BOOST_TEST(!cache.find(RowId{1}, {codes, scales}));
  BOOST_TEST(cache.find(RowId{3}, {codes, scales}));
  BOOST_TEST(static_cast<int>(codes[0]) == 3);
  BOOST_TEST(!cache.find(no_row, {codes, scales}));
}

BOOST_AUTO_TEST_SUITE_END()
