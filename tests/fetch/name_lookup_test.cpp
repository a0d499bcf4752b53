// Names have an end: of the address they lead to, or of the time that it may take.
#include "net/fetch/name_lookup.hpp"

#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/test/unit_test.hpp>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <stdexcept>

namespace tandem::net::fetch::test {

using namespace std::chrono_literals;

BOOST_AUTO_TEST_SUITE(fetch_name_lookup)

Result<Endpoints> look_up_now(const Url& url, std::chrono::milliseconds limit, NameService service = ask_system) {
  boost::asio::io_context context;
  std::optional<Result<Endpoints>> result;
  const auto ask = [&]() -> Awaitable<void> { result.emplace(co_await fetch::look_up(url, limit, service)); };
  boost::asio::co_spawn(context, ask, boost::asio::detached);
  context.run();
  return std::move(*result);
}

constexpr std::chrono::seconds patience{30};

// A name service that answers when it is told to.
class SlowService {
 public:
  NameService service() {
    return [this](const std::string&, std::uint16_t port) -> Result<Endpoints> {
      std::unique_lock lock(mutex_);
      changed_.wait_for(lock, patience, [this] { return may_answer_; });
      ++answers_;
      changed_.notify_all();
      return Endpoints{{boost::asio::ip::address_v4::loopback(), port}};
    };
  }
  void let_answer() {
    const std::lock_guard lock(mutex_);
    may_answer_ = true;
    changed_.notify_all();
  }
  // Returns whether this many were answered within the patience.
  bool wait_for_answers(int count) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, patience, [&] { return answers_ == count; });
  }
  int answers() {
    const std::lock_guard lock(mutex_);
    return answers_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool may_answer_ = false;
  int answers_ = 0;
};

BOOST_AUTO_TEST_CASE(this_machine_has_an_address) {
  const auto endpoints = look_up_now(*Url::parse("http://localhost:8123/"), patience);
  BOOST_REQUIRE_MESSAGE(endpoints, (endpoints ? "" : endpoints.error().message()));
  BOOST_TEST(endpoints->front().address().is_loopback());
  BOOST_TEST(endpoints->front().port() == 8123);
  BOOST_TEST(net::look_up("localhost", 7, patience)->front().address().is_loopback());
}

BOOST_AUTO_TEST_CASE(numbers_need_nobody_who_knows_names) {
  const auto none = [](const std::string&, std::uint16_t) -> Result<Endpoints> { throw std::runtime_error("nobody"); };
  for (const char* text : {"http://127.0.0.1/", "http://[::1]:81/"}) {
    const auto endpoints = look_up_now(*Url::parse(text), 0ms, none);
    BOOST_REQUIRE_MESSAGE(endpoints, text);
    BOOST_TEST(endpoints->size() == 1U);
    BOOST_TEST(endpoints->front().address().is_loopback());
  }
  BOOST_TEST(net::look_up("::1", 7, 0ms, none)->front().port() == 7);
}

BOOST_AUTO_TEST_CASE(names_that_nobody_knows_are_errors) {
  const auto unknown = net::look_up("name.invalid", 7, 60s);
  BOOST_REQUIRE(!unknown);
  BOOST_TEST((unknown.error().code == ErrorCode::unavailable));
  BOOST_TEST(unknown.error().message().find("name.invalid:7") != std::string::npos);
  const auto none = [](const std::string&, std::uint16_t) -> Result<Endpoints> { throw std::runtime_error("nobody"); };
  const auto broken = look_up_now(*Url::parse("http://spark-2/"), patience, none);
  BOOST_REQUIRE(!broken);
  BOOST_TEST((broken.error().code == ErrorCode::unavailable));
  BOOST_TEST(broken.error().message().find("nobody") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(a_name_that_takes_longer_than_the_limit_is_given_up) {
  SlowService slow;
  const auto url = *Url::parse("http://spark-2/");
  constexpr int asked = 20;
  for (int i = 0; i < asked; ++i) {
    const auto limit = std::chrono::milliseconds(i % 3);
    const auto endpoints =
        i % 2 == 0 ? look_up_now(url, limit, slow.service()) : net::look_up(url.host, 80, limit, slow.service());
    BOOST_REQUIRE(!endpoints);
    BOOST_TEST((endpoints.error().code == ErrorCode::timeout));
    BOOST_TEST(endpoints.error().message().find("resolving the name") != std::string::npos);
  }
  BOOST_TEST(slow.answers() == 0, "nobody waited for them");
  slow.let_answer();
  BOOST_TEST(slow.wait_for_answers(asked));
  BOOST_TEST(look_up_now(url, patience, slow.service())->front().port() == 80);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace tandem::net::fetch::test
