// What every communicator promises, checked on all kinds with 1 to 4 ranks: blocks, errors, abort, departure,
// deadlines.
#include <algorithm>
#include <atomic>
#include <boost/test/unit_test.hpp>
#include <latch>
#include <optional>

#include "tests/gpu/comm_ranks.hpp"

using namespace tandem;
using namespace tandem::gpu;
using namespace std::chrono_literals;

namespace {

struct Kind {
  const char* name;
  test::Members (*make)(int size, std::chrono::milliseconds timeout);
};

test::Members solo_or_threads(int size, std::chrono::milliseconds timeout) {
  if (size > 1) return make_thread_communicators(size, timeout);
  test::Members members;
  members.push_back(make_solo_communicator());
  return members;
}

const Kind kinds[] = {
    {"threads", make_thread_communicators}, {"solo or threads", solo_or_threads}, {"tcp", test::tcp_members}};

bool is_complete(const test::Members& members) {
  return std::all_of(members.begin(), members.end(), [](const auto& member) { return member != nullptr; });
}

void for_all_kinds(int size, std::chrono::milliseconds timeout, const std::function<void(test::Members&)>& body) {
  for (const Kind& kind : kinds) {
    BOOST_TEST_CONTEXT(kind.name << ", " << size << " ranks") {
      test::Members members = kind.make(size, timeout);
      BOOST_REQUIRE(is_complete(members));
      body(members);
    }
  }
}

using Errors = std::vector<std::optional<Error>>;

// Every rank listed gathers once; returns their errors by rank.
Errors gather_on(test::Members& members, const std::vector<int>& ranks) {
  Errors errors(members.size());
  std::vector<std::jthread> threads;
  for (const int rank : ranks) {
    threads.emplace_back([&members, &errors, rank] {
      auto& member = *members[static_cast<std::size_t>(rank)];
      const auto local = test::block(rank, 0, 16);
      std::vector<std::byte> all(16 * members.size());
      const auto done = member.all_gather(local, all);
      if (!done) errors[static_cast<std::size_t>(rank)] = done.error();
    });
  }
  threads.clear();
  return errors;
}

bool is_code(const std::optional<Error>& error, ErrorCode code) {
  return error && error->code == code;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(comm_contract)

BOOST_AUTO_TEST_CASE(every_rank_gets_all_blocks_in_rank_order_at_any_size) {
  for (int size = 1; size <= 4; ++size) {
    for_all_kinds(size, 20s, [&](test::Members& members) {
      std::atomic<int> wrong = 0;
      test::on_all_ranks(size, [&](int rank) {
        int round = 0;
        for (const std::size_t bytes : {0UL, 1UL, 3UL, 1000UL, 65'537UL, 1UL << 20, 0UL, 8UL}) {
          for (const bool in_place : {false, true}) {
            if (!test::gathers(*members[static_cast<std::size_t>(rank)], round++, bytes, in_place)) ++wrong;
          }
        }
      });
      BOOST_TEST(wrong == 0);
    });
  }
}

BOOST_AUTO_TEST_CASE(many_small_exchanges_in_a_row_never_mix_rounds) {
  for (const int size : {2, 3}) {
    for_all_kinds(size, 20s, [&](test::Members& members) {
      std::atomic<int> wrong = 0;
      test::on_all_ranks(size, [&](int rank) {
        for (int round = 0; round < 1000; ++round) {
          if (!test::gathers(*members[static_cast<std::size_t>(rank)], round, static_cast<std::size_t>(round % 5) * 8))
            ++wrong;
        }
      });
      BOOST_TEST(wrong == 0);
    });
  }
}

BOOST_AUTO_TEST_CASE(ranks_and_sizes_are_what_was_asked_for) {
  for_all_kinds(3, 20s, [](test::Members& members) {
    for (int rank = 0; rank < 3; ++rank) {
      BOOST_TEST(members[static_cast<std::size_t>(rank)]->rank() == rank);
      BOOST_TEST(members[static_cast<std::size_t>(rank)]->size() == 3);
    }
  });
}

BOOST_AUTO_TEST_CASE(abort_wakes_every_waiting_rank_with_cancelled) {
  for (const int aborter : {0, 1, 2}) {
    for_all_kinds(3, 20s, [&](test::Members& members) {
      std::vector<int> waiting{0, 1, 2};
      std::erase(waiting, aborter);
      // The aborter itself never arrives: the others wait for it.
      std::jthread other([&] { members[static_cast<std::size_t>(aborter)]->abort("the user left"); });
      const Errors errors = gather_on(members, waiting);
      for (const int rank : waiting) {
        BOOST_TEST(is_code(errors[static_cast<std::size_t>(rank)], ErrorCode::cancelled));
        BOOST_TEST(errors[static_cast<std::size_t>(rank)]->found == "the user left");
        BOOST_TEST(errors[static_cast<std::size_t>(rank)]->where == "rank " + std::to_string(aborter));
      }
    });
  }
}

BOOST_AUTO_TEST_CASE(abort_wakes_the_aborting_rank_itself) {
  for_all_kinds(2, 20s, [](test::Members& members) {
    std::jthread other([&] { members[0]->abort("stop"); });
    BOOST_TEST(is_code(gather_on(members, {0})[0], ErrorCode::cancelled));
  });
}

BOOST_AUTO_TEST_CASE(after_abort_every_call_fails_at_once_and_abort_may_be_repeated) {
  for (const int size : {1, 2}) {
    for_all_kinds(size, 20s, [&](test::Members& members) {
      std::vector<std::jthread> aborters;
      for (int i = 0; i < 4; ++i) aborters.emplace_back([&] { members[0]->abort("stop"); });
      aborters.clear();
      BOOST_TEST(is_code(gather_on(members, {0})[0], ErrorCode::cancelled));
      BOOST_TEST(is_code(gather_on(members, {0})[0], ErrorCode::cancelled));
    });
  }
}

BOOST_AUTO_TEST_CASE(a_rank_that_leaves_makes_the_others_unavailable_and_is_named) {
  for (const int leaver : {0, 2}) {
    for_all_kinds(3, 20s, [&](test::Members& members) {
      members[static_cast<std::size_t>(leaver)].reset();
      std::vector<int> rest{0, 1, 2};
      std::erase(rest, leaver);
      const Errors errors = gather_on(members, rest);
      for (const int rank : rest) {
        BOOST_TEST(is_code(errors[static_cast<std::size_t>(rank)], ErrorCode::unavailable));
        BOOST_TEST(errors[static_cast<std::size_t>(rank)]->where == "rank " + std::to_string(leaver));
      }
    });
  }
}

BOOST_AUTO_TEST_CASE(a_rank_that_leaves_after_the_last_exchange_disturbs_nobody) {
  for_all_kinds(3, 20s, [](test::Members& members) {
    std::atomic<int> wrong = 0;
    test::on_all_ranks(3, [&](int rank) {
      auto& member = members[static_cast<std::size_t>(rank)];
      for (int round = 0; round < 20; ++round) {
        if (!test::gathers(*member, round, 100'000)) ++wrong;
      }
      member.reset();
    });
    BOOST_TEST(wrong == 0);
  });
}

BOOST_AUTO_TEST_CASE(a_rank_that_does_not_come_is_a_timeout_on_all_others) {
  for_all_kinds(3, 60ms, [](test::Members& members) {
    const Errors errors = gather_on(members, {0, 1});
    for (const int rank : {0, 1}) {
      BOOST_REQUIRE(is_code(errors[static_cast<std::size_t>(rank)], ErrorCode::timeout));
      BOOST_TEST(errors[static_cast<std::size_t>(rank)]->message().find("2") != std::string::npos);
    }
    // Over TCP the late rank finds the others' blocks waiting, so it may learn only in the next exchange that the group
    // is dead.
    (void)gather_on(members, {2});
    BOOST_TEST(is_code(gather_on(members, {2})[2], ErrorCode::timeout));
  });
}

BOOST_AUTO_TEST_CASE(blocks_of_different_sizes_are_an_error_on_every_rank) {
  for_all_kinds(2, 20s, [](test::Members& members) {
    Errors errors(2);
    test::on_all_ranks(2, [&](int rank) {
      const std::size_t bytes = rank == 0 ? 8 : 16;
      std::vector<std::byte> local(bytes), all(2 * bytes);
      // The second exchange meets those who took the first one for good.
      for (int i = 0; i < 2; ++i) {
        const auto done = members[static_cast<std::size_t>(rank)]->all_gather(local, all);
        if (!done) errors[static_cast<std::size_t>(rank)] = done.error();
      }
    });
    BOOST_TEST(is_code(errors[0], ErrorCode::mismatch));
    BOOST_TEST(is_code(errors[1], ErrorCode::mismatch));
  });
}

BOOST_AUTO_TEST_CASE(room_of_the_wrong_size_is_refused_and_ends_the_group) {
  for_all_kinds(2, 20s, [](test::Members& members) {
    std::vector<std::byte> local(8), all(15);
    const auto refused = members[1]->all_gather(local, all);
    BOOST_REQUIRE(!refused);
    BOOST_TEST((refused.error().code == ErrorCode::invalid_argument));
    BOOST_TEST(gather_on(members, {0})[0].has_value());
  });
}

BOOST_AUTO_TEST_SUITE_END()
