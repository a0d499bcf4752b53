// Names have an end: of the address they lead to, or of the time that it may take.
#include "net/fetch/name_lookup.hpp"

#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/test/unit_test.hpp>
#include <optional>

namespace tandem::net::fetch::test {

BOOST_AUTO_TEST_SUITE(fetch_name_lookup)

Result<Endpoints> look_up_now(const Url& url, std::chrono::milliseconds limit) {
  boost::asio::io_context context;
  std::optional<Result<Endpoints>> result;
  const auto ask = [&]() -> Awaitable<void> { result.emplace(co_await look_up(url, limit)); };
  boost::asio::co_spawn(context, ask, boost::asio::detached);
  context.run();
  return std::move(*result);
}

constexpr std::chrono::seconds patience{30};

BOOST_AUTO_TEST_CASE(this_machine_has_an_address) {
  const auto endpoints = look_up_now(*Url::parse("http://localhost:8123/"), patience);
  BOOST_REQUIRE_MESSAGE(endpoints, (endpoints ? "" : endpoints.error().message()));
  BOOST_TEST(endpoints->front().address().is_loopback());
  BOOST_TEST(endpoints->front().port() == 8123);
}

BOOST_AUTO_TEST_CASE(numbers_need_nobody_who_knows_names) {
  for (const char* text : {"http://127.0.0.1/", "http://[::1]:81/"}) {
    const auto endpoints = look_up_now(*Url::parse(text), std::chrono::milliseconds(0));
    BOOST_REQUIRE_MESSAGE(endpoints, text);
    BOOST_TEST(endpoints->size() == 1U);
    BOOST_TEST(endpoints->front().address().is_loopback());
  }
}

BOOST_AUTO_TEST_CASE(a_name_that_takes_longer_than_the_limit_is_given_up) {
  // Many, so that some are given up while the C library works on them.
  for (int i = 0; i < 50; ++i) {
    const auto endpoints = look_up_now(*Url::parse("http://localhost/"), std::chrono::milliseconds(0));
    BOOST_REQUIRE(!endpoints);
    BOOST_TEST((endpoints.error().code == ErrorCode::timeout));
    BOOST_TEST(endpoints.error().message().find("resolving the name") != std::string::npos);
  }
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace tandem::net::fetch::test
