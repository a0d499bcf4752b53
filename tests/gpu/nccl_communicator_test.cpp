// The communicator over a NCCL of the test's own: meeting, exchanging, and every way to end.
#include <atomic>
#include <boost/test/unit_test.hpp>
#include <functional>
#include <optional>

#include "gpu/comm/nccl_communicator.hpp"
#include "tests/gpu/comm_ranks.hpp"
#include "tests/gpu/fake_nccl.hpp"

using namespace tandem;
using namespace tandem::gpu;
using namespace std::chrono_literals;

namespace {

NcclOptions patient_options() {
  NcclOptions options;
  options.connect_timeout = 20s;
  options.timeout = 20s;
  return options;
}

// Ranks with a library each, over a group of threads.
struct NcclRanks {
  explicit NcclRanks(int size) : fabric(size), members(make_thread_communicators(size, 20s)) {
    for (int rank = 0; rank < size; ++rank) libraries.push_back(std::make_unique<test::FakeNccl>(fabric, rank));
    errors.resize(static_cast<std::size_t>(size));
  }

  // Every rank connects; members of ranks that did not stay what they were.
  bool connect(const NcclOptions& options) {
    test::on_all_ranks(fabric.size, [&](int rank) {
      const auto at = static_cast<std::size_t>(rank);
      auto made = make_nccl_communicator(*libraries[at], members[at], options);
      if (made)
        members[at] = std::move(*made);
      else
        errors[at] = made.error();
    });
    return std::none_of(errors.begin(), errors.end(), [](const auto& error) { return error.has_value(); });
  }

  bool has_all(ErrorCode code, const std::string& where) const {
    return std::all_of(errors.begin(), errors.end(),
                       [&](const auto& error) { return error && error->code == code && error->where == where; });
  }

  // The control groups still exchange.
  bool keep_meeting() {
    std::atomic<int> wrong = 0;
    test::on_all_ranks(fabric.size, [&](int rank) {
      if (!test::gathers(*members[static_cast<std::size_t>(rank)], 0, 100)) ++wrong;
    });
    return wrong == 0;
  }

  test::FakeFabric fabric;
  std::vector<std::unique_ptr<test::FakeNccl>> libraries;
  test::Members members;
  std::vector<std::optional<Error>> errors;
};

bool exchanges_devices(Communicator& member, int round, std::size_t bytes) {
  const auto local = test::block(member.rank(), round, bytes);
  std::vector<std::byte> all(bytes * static_cast<std::size_t>(member.size()));
  if (!member.all_gather_on(nullptr, local, all)) return false;
  for (int rank = 0; rank < member.size(); ++rank) {
    const auto expected = test::block(rank, round, bytes);
    const auto at = all.begin() + static_cast<std::ptrdiff_t>(bytes * static_cast<std::size_t>(rank));
    if (!std::equal(expected.begin(), expected.end(), at)) return false;
  }
  return true;
}

// One exchange on a device that nobody else joins; returns its error.
std::optional<Error> exchange_alone(Communicator& member) {
  const std::vector<std::byte> local(8);
  std::vector<std::byte> all(8 * static_cast<std::size_t>(member.size()));
  const auto done = member.all_gather_on(nullptr, local, all);
  return done ? std::nullopt : std::optional(done.error());
}

bool ends_with(Communicator& member, ErrorCode code) {
  const auto end = std::chrono::steady_clock::now() + 20s;
  while (!member.failure() && std::chrono::steady_clock::now() < end) std::this_thread::yield();
  const auto error = member.failure();
  return error && error->code == code;
}

bool becomes(const std::atomic<int>& counter, int wanted) {
  const auto end = std::chrono::steady_clock::now() + 20s;
  while (counter != wanted && std::chrono::steady_clock::now() < end) std::this_thread::yield();
  return counter == wanted;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(nccl_communicator)

BOOST_AUTO_TEST_CASE(ranks_meet_by_rank_0s_id_and_get_all_blocks_in_rank_order) {
  for (int size = 1; size <= 4; ++size) {
    NcclRanks ranks(size);
    BOOST_REQUIRE(ranks.connect(patient_options()));
    std::atomic<int> wrong = 0;
    test::on_all_ranks(size, [&](int rank) {
      Communicator& member = *ranks.members[static_cast<std::size_t>(rank)];
      int round = 0;
      for (const std::size_t bytes : {1UL, 3UL, 1000UL, 65'537UL}) {
        if (!exchanges_devices(member, round++, bytes) || !test::gathers(member, round, bytes)) ++wrong;
      }
      if (!member.reaches_devices() || member.rank() != rank || member.size() != size) ++wrong;
    });
    BOOST_TEST(wrong == 0, size << " ranks");
  }
}

BOOST_AUTO_TEST_CASE(a_rank_that_cannot_begin_is_named_on_every_rank_and_the_control_group_stays) {
  for (const int broken : {0, 2}) {
    NcclRanks ranks(3);
    ranks.libraries[static_cast<std::size_t>(broken)]->begins = false;
    NcclOptions options = patient_options();
    options.connect_timeout = 50ms;  // what the others wait in vain
    BOOST_TEST(!ranks.connect(options));
    BOOST_TEST(ranks.has_all(ErrorCode::unavailable, "NCCL, rank " + std::to_string(broken)));
    BOOST_TEST(ranks.errors[1]->found == "unhandled cuda error");
    BOOST_TEST(ranks.fabric.aborted == 3);
    BOOST_TEST(ranks.keep_meeting());
  }
}

BOOST_AUTO_TEST_CASE(an_id_that_cannot_be_made_fails_every_rank_before_any_begins) {
  NcclRanks ranks(2);
  ranks.libraries[0]->makes_ids = false;
  BOOST_TEST(!ranks.connect(patient_options()));
  BOOST_TEST(ranks.has_all(ErrorCode::unavailable, "NCCL, rank 0"));
  BOOST_TEST(ranks.errors[1]->found == "no interface");
  BOOST_TEST(ranks.fabric.begun == 0);
  BOOST_TEST(ranks.keep_meeting());
}

BOOST_AUTO_TEST_CASE(a_device_that_cannot_be_selected_fails_every_rank) {
  NcclRanks ranks(2);
  ranks.libraries[1]->has_device = false;
  BOOST_TEST(!ranks.connect(patient_options()));
  BOOST_TEST(ranks.has_all(ErrorCode::resource, "NCCL, rank 1"));
  BOOST_TEST(ranks.keep_meeting());
}

BOOST_AUTO_TEST_CASE(a_group_that_never_connects_is_a_timeout_on_every_rank) {
  NcclRanks ranks(2);
  ranks.fabric.connects = false;
  NcclOptions options = patient_options();
  options.connect_timeout = 30ms;
  BOOST_TEST(!ranks.connect(options));
  BOOST_TEST(ranks.has_all(ErrorCode::timeout, "NCCL, rank 0"));
  BOOST_TEST(ranks.fabric.aborted == 2);
  BOOST_TEST(ranks.keep_meeting());
}

BOOST_AUTO_TEST_CASE(a_stop_ends_connecting_on_every_rank) {
  NcclRanks ranks(2);
  ranks.fabric.connects = false;
  const std::atomic<bool> stop = true;
  NcclOptions options = patient_options();
  options.stop = &stop;
  BOOST_TEST(!ranks.connect(options));
  BOOST_TEST(ranks.has_all(ErrorCode::cancelled, "NCCL, rank 0"));
  BOOST_TEST(ranks.fabric.aborted == 2);
}

BOOST_AUTO_TEST_CASE(a_rank_that_leaves_before_it_connects_is_unavailable_to_the_others) {
  NcclRanks ranks(2);
  ranks.members[1].reset();
  const auto made = make_nccl_communicator(*ranks.libraries[0], ranks.members[0], patient_options());
  BOOST_REQUIRE(!made);
  BOOST_TEST((made.error().code == ErrorCode::unavailable));
  BOOST_TEST(made.error().where == "rank 1");
}

BOOST_AUTO_TEST_CASE(an_error_in_watched_work_is_a_lost_peer_and_aborts_what_is_in_flight) {
  NcclRanks ranks(2);
  BOOST_REQUIRE(ranks.connect(patient_options()));
  for (auto& member : ranks.members) member->watch(true);
  BOOST_TEST(!ranks.members[0]->failure().has_value());
  ranks.fabric.has_lost_peer = true;
  for (auto& member : ranks.members) BOOST_TEST(ends_with(*member, ErrorCode::unavailable));
  BOOST_TEST(ranks.members[0]->failure()->found == "remote process exited");
  BOOST_TEST(becomes(ranks.fabric.aborted, 2));
  const auto later = exchange_alone(*ranks.members[0]);
  BOOST_REQUIRE(later.has_value());
  BOOST_TEST((later->code == ErrorCode::unavailable));
}

BOOST_AUTO_TEST_CASE(an_error_wakes_a_rank_that_waits_in_host_memory_with_the_cause) {
  NcclRanks ranks(2);
  BOOST_REQUIRE(ranks.connect(patient_options()));
  ranks.members[0]->watch(true);
  std::optional<Error> error;
  std::jthread waiting([&] {
    const std::vector<std::byte> local(8);
    std::vector<std::byte> all(16);
    const auto done = ranks.members[0]->all_gather(local, all);  // rank 1 never comes
    if (!done) error = done.error();
  });
  ranks.fabric.has_lost_peer = true;
  waiting.join();
  BOOST_REQUIRE(error.has_value());
  BOOST_TEST((error->code == ErrorCode::unavailable));
  BOOST_TEST(error->where == "NCCL, rank 0");
}

BOOST_AUTO_TEST_CASE(watched_work_beyond_the_deadline_is_a_timeout) {
  NcclRanks ranks(2);
  NcclOptions options = patient_options();
  options.timeout = 30ms;
  BOOST_REQUIRE(ranks.connect(options));
  ranks.members[1]->watch(true);
  BOOST_TEST(ends_with(*ranks.members[1], ErrorCode::timeout));
  BOOST_TEST(becomes(ranks.fabric.aborted, 1));
}

BOOST_AUTO_TEST_CASE(work_that_ended_in_time_has_no_deadline_left) {
  NcclRanks ranks(1);
  NcclOptions options = patient_options();
  options.timeout = 60s;
  BOOST_REQUIRE(ranks.connect(options));
  for (int step = 0; step < 1000; ++step) {
    ranks.members[0]->watch(true);
    BOOST_REQUIRE(!ranks.members[0]->failure().has_value());
    ranks.members[0]->watch(false);
  }
  ranks.fabric.has_lost_peer = true;  // nobody looks any more
  BOOST_TEST(!ranks.members[0]->failure().has_value());
}

BOOST_AUTO_TEST_CASE(an_exchange_that_is_never_issued_is_a_timeout) {
  NcclRanks ranks(2);
  NcclOptions options = patient_options();
  options.timeout = 30ms;
  BOOST_REQUIRE(ranks.connect(options));
  const auto error = exchange_alone(*ranks.members[0]);
  BOOST_REQUIRE(error.has_value());
  BOOST_TEST((error->code == ErrorCode::timeout));
  BOOST_TEST(becomes(ranks.fabric.aborted, 1));
}

BOOST_AUTO_TEST_CASE(abort_ends_an_exchange_that_waits_and_does_not_wait_itself) {
  NcclRanks ranks(2);
  BOOST_REQUIRE(ranks.connect(patient_options()));
  {
    const std::lock_guard lock(ranks.fabric.mutex);
    ranks.fabric.has_graphs = true;  // the library's abort blocks
  }
  std::optional<Error> error;
  std::jthread waiting([&] { error = exchange_alone(*ranks.members[0]); });
  ranks.members[0]->abort("the user left");
  ranks.members[0]->abort("again");
  waiting.join();
  BOOST_REQUIRE(error.has_value());
  BOOST_TEST((error->code == ErrorCode::cancelled));
  BOOST_TEST(error->found == "the user left");
  BOOST_TEST(!test::gathers(*ranks.members[1], 0, 8));
  {
    const std::lock_guard lock(ranks.fabric.mutex);
    ranks.fabric.has_graphs = false;
  }
  ranks.fabric.changed.notify_all();
}

BOOST_AUTO_TEST_CASE(a_group_at_rest_ends_in_peace_even_after_an_abort) {
  for (const bool aborts : {false, true}) {
    NcclRanks ranks(2);
    BOOST_REQUIRE(ranks.connect(patient_options()));
    for (auto& member : ranks.members) {
      member->watch(true);
      member->watch(false);
      if (aborts) member->abort("the node stops");
    }
    ranks.members.clear();
    BOOST_TEST(ranks.fabric.finalized == 2);
    BOOST_TEST(ranks.fabric.destroyed == 2);
    BOOST_TEST(ranks.fabric.aborted == 0);
  }
}

BOOST_AUTO_TEST_CASE(a_group_with_work_in_flight_is_aborted_when_it_is_left) {
  NcclRanks ranks(2);
  BOOST_REQUIRE(ranks.connect(patient_options()));
  ranks.members[0]->watch(true);
  ranks.members[0].reset();
  BOOST_TEST(ranks.fabric.aborted == 1);
  BOOST_TEST(ranks.fabric.destroyed == 0);
}

BOOST_AUTO_TEST_CASE(a_group_that_does_not_come_to_rest_is_aborted_in_the_end) {
  NcclRanks ranks(1);
  BOOST_REQUIRE(ranks.connect(patient_options()));
  ranks.fabric.finalizes = false;
  ranks.members.clear();
  BOOST_TEST(ranks.fabric.finalized == 1);
  BOOST_TEST(ranks.fabric.aborted == 1);
  BOOST_TEST(ranks.fabric.destroyed == 0);
}

BOOST_AUTO_TEST_CASE(a_group_that_the_library_never_frees_is_left_behind) {
  NcclRanks ranks(1);
  BOOST_REQUIRE(ranks.connect(patient_options()));
  test::FakeFabric& fabric = ranks.fabric;
  {
    const std::lock_guard lock(fabric.mutex);
    fabric.has_graphs = true;
  }
  ranks.members[0]->watch(true);
  ranks.members[0].reset();  // comes back although the abort does not
  BOOST_TEST(fabric.aborted == 1);
  BOOST_TEST(fabric.abort_ends == 0);
  std::unique_lock lock(fabric.mutex);
  fabric.has_graphs = false;
  fabric.changed.notify_all();
  fabric.changed.wait(lock, [&] { return fabric.abort_ends == 1; });  // its thread still uses the fabric
}

BOOST_AUTO_TEST_CASE(room_of_the_wrong_size_is_refused_before_the_library_sees_it) {
  NcclRanks ranks(2);
  BOOST_REQUIRE(ranks.connect(patient_options()));
  const std::vector<std::byte> local(8);
  std::vector<std::byte> all(15);
  const auto done = ranks.members[0]->all_gather_on(nullptr, local, all);
  BOOST_REQUIRE(!done);
  BOOST_TEST((done.error().code == ErrorCode::invalid_argument));
  BOOST_TEST(ranks.fabric.rounds.empty());
}

BOOST_AUTO_TEST_SUITE_END()
