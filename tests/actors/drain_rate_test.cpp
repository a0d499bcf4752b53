// What a full queue tells its clients to wait.
#include "actors/drain_rate.hpp"

#include <boost/test/unit_test.hpp>

using tandem::actors::DrainRate;
using namespace std::chrono_literals;

BOOST_AUTO_TEST_SUITE(drain_rate)

BOOST_AUTO_TEST_CASE(nothing_known_is_one_second) {
  DrainRate rate;
  BOOST_TEST(rate.seconds_for(256) == 1U);
  rate.note_end(DrainRate::TimePoint{1s}, 10);
  BOOST_TEST(rate.seconds_for(256) == 1U);
}

BOOST_AUTO_TEST_CASE(the_wait_follows_the_pace_and_the_length_of_the_queue) {
  DrainRate rate;
  for (int i = 0; i < 100; ++i) rate.note_end(DrainRate::TimePoint{i * 500ms}, 20);
  BOOST_TEST(rate.seconds_for(20) == 10U);
  BOOST_TEST(rate.seconds_for(21) == 11U);  // rounded up
  BOOST_TEST(rate.seconds_for(1) == 1U);
  BOOST_TEST(rate.seconds_for(100'000) == 60U);
}

BOOST_AUTO_TEST_CASE(the_pace_of_an_idle_time_is_forgotten) {
  DrainRate rate;
  rate.note_end(DrainRate::TimePoint{0s}, 3);
  rate.note_end(DrainRate::TimePoint{1000s}, 0);  // the queue was empty
  rate.note_end(DrainRate::TimePoint{2000s}, 8);
  rate.note_end(DrainRate::TimePoint{2002s}, 8);
  BOOST_TEST(rate.seconds_for(8) == 16U);
}

BOOST_AUTO_TEST_SUITE_END()
