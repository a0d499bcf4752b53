// Calls in threads that nobody joins: their end and what they threw come back.
#include "engram/unwaited_call.hpp"

#include <boost/test/unit_test.hpp>
#include <chrono>
#include <memory>
#include <stdexcept>

using namespace tandem;
using namespace std::chrono_literals;

BOOST_AUTO_TEST_SUITE(unwaited_call)

BOOST_AUTO_TEST_CASE(a_call_is_waited_for_as_long_as_the_caller_likes) {
  std::promise<void> go;
  auto may_end = std::make_shared<std::future<void>>(go.get_future());
  const auto end = start_unwaited([may_end] { may_end->wait(); });
  BOOST_REQUIRE(end.has_value());
  BOOST_TEST((end->wait_for(1ms) == std::future_status::timeout));
  go.set_value();
  BOOST_TEST((end->wait_for(30s) == std::future_status::ready));
}

BOOST_AUTO_TEST_CASE(what_a_call_throws_reaches_who_asks_for_its_end) {
  auto end = start_unwaited([] { throw std::runtime_error("no answer"); });
  BOOST_REQUIRE(end.has_value());
  BOOST_CHECK_EXCEPTION(end->get(), std::runtime_error,
                        [](const std::exception& thrown) { return std::string(thrown.what()) == "no answer"; });
}

BOOST_AUTO_TEST_CASE(a_call_whose_end_nobody_wants_runs_all_the_same) {
  auto ran = std::make_shared<std::promise<void>>();
  auto has_run = ran->get_future();
  BOOST_TEST(start_unwaited([ran] { ran->set_value(); }).has_value());
  BOOST_TEST((has_run.wait_for(30s) == std::future_status::ready));
}

BOOST_AUTO_TEST_SUITE_END()
