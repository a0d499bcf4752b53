// Many clients at once, some of whom leave: every survivor's text equals the same request alone, and nothing stays
// behind.
#include <atomic>
#include <boost/test/unit_test.hpp>
#include <random>

#include "tests/e2e/chat_client.hpp"
#include "tests/e2e/tandem_process.hpp"

using namespace tandem::test;

namespace {

constexpr int clients = 32;
constexpr int requests = is_sanitized ? 200 : 2000;
constexpr int prompts = 50;

boost::json::object prompt(int number) {
  const std::string question =
      number % 3 == 0   ? "What is " + std::to_string(2 + number % 19) + "*" + std::to_string(3 + number % 17) + "?"
      : number % 3 == 1 ? "Tell me a story about number " + std::to_string(number) + "."
                        : "Hello, I am guest " + std::to_string(number) + ".";
  return chat_body(question, number % 5 == 0, {{"max_tokens", 8 + number % 25}});
}

std::string text_of(const ChatAnswer& answer) {
  return answer.reasoning + "|" + answer.content + "|" + answer.finish_reason;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(storm)

BOOST_AUTO_TEST_CASE(survivors_hear_what_they_would_hear_alone_and_nothing_leaks) {
  TandemServer server{tiny_model(), {"--ranks", "2"}};
  const auto port = server.port();
  std::vector<std::string> alone;
  for (int i = 0; i < prompts; ++i) alone.push_back(text_of(ask(port, prompt(i))));

  std::atomic<int> next{0}, wrong{0}, survivors{0}, left{0};
  const auto client = [&](std::uint32_t seed) {
    std::mt19937 random{seed};
    while (next++ < requests) {
      const int number = static_cast<int>(random() % prompts);
      auto body = prompt(number);
      const bool is_stream = random() % 4 != 0;
      body["stream"] = is_stream;
      if (is_stream && random() % 4 == 0) {
        ask(port, body, 1 + random() % 6);  // reads a little and hangs up
        ++left;
        continue;
      }
      ++survivors;
      if (text_of(ask(port, body)) != alone[static_cast<std::size_t>(number)]) ++wrong;
    }
  };
  const auto run_clients = [&](std::uint32_t seed) {
    std::vector<std::thread> threads;
    for (int i = 0; i < clients; ++i) threads.emplace_back(client, seed + static_cast<std::uint32_t>(i));
    for (auto& thread : threads) thread.join();
  };
  // A first tenth fills every pool and cache; from then on memory must not grow with the number of requests.
  next = requests - requests / 10;
  run_clients(1000);
  const auto rss_before = server.process().rss_bytes();
  next = 0;
  run_clients(1);
  BOOST_TEST(wrong == 0);
  BOOST_TEST(survivors > requests / 2);
  BOOST_TEST(left > 0);
  BOOST_TEST(becomes_idle(port));
  const auto rss_after = server.process().rss_bytes();
  BOOST_TEST_MESSAGE("resident before " << rss_before << " after " << rss_after << " bytes");
  const std::uint64_t slack = is_sanitized ? std::uint64_t{256} << 20 : std::uint64_t{24} << 20;
  BOOST_TEST(rss_after < rss_before + slack);
}

BOOST_AUTO_TEST_SUITE_END()
