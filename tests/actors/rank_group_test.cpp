// What a complete group of ranks promises to requests.
#include "actors/rank_group.hpp"

#include <boost/test/unit_test.hpp>

namespace tandem::actors {

namespace {

// Returns the longest sequence of a group of one whose engine has these limits.
std::int64_t longest_sequence(std::int64_t context, std::int64_t pages) {
  RankRoster roster;
  roster.begin(1, "run");
  RankState ready;
  ready.run_id = "run";
  ready.state = NodeState::ready;
  ready.info.max_positions = context;
  ready.info.page_tokens = 64;
  ready.info.pages_total = pages;
  BOOST_TEST(roster.update(ready, {}));
  BOOST_REQUIRE(roster.is_complete());
  return roster.group()->info.max_positions;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(rank_group)

BOOST_AUTO_TEST_CASE(a_pool_smaller_than_the_context_bounds_the_longest_sequence) {
  BOOST_TEST(longest_sequence(4096, 32) == 2048);
  BOOST_TEST(longest_sequence(4096, 64) == 4096);
  BOOST_TEST(longest_sequence(4096, 65) == 4096);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace tandem::actors
