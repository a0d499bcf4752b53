// Prompts that take long to encode: what the context's length and the server's end make of them.
#include "net/http/work_pool.hpp"
#include "tests/http/server_fixture.hpp"

#include <fmt/format.h>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/test/unit_test.hpp>

#include <future>

namespace tandem::net::http::test {

using namespace std::chrono_literals;

namespace {

std::string prompt_body(std::size_t bytes) {
  return R"({"prompt":")" + std::string(bytes, 'a') + R"("})";
}

std::string message_body(std::size_t bytes) {
  return R"({"messages":[{"role":"user","content":")" + std::string(bytes, 'a') + R"("}]})";
}

// Runs `work` on `pool` for a coroutine of `context`; returns what run() says.
std::future<bool> run_on(boost::asio::io_context& context, WorkPool& pool, std::function<void()> work) {
  auto told = std::make_shared<std::promise<bool>>();
  boost::asio::co_spawn(
      context,
      [&pool, told, work]() -> Awaitable<void> {
        auto job = work;
        const bool is_done = co_await pool.run(std::move(job));
        told->set_value(is_done);
      },
      [](std::exception_ptr) {});
  return told->get_future();
}

}  // namespace

BOOST_AUTO_TEST_SUITE(long_prompt)

BOOST_AUTO_TEST_CASE(a_pool_that_ends_tells_running_and_waiting_jobs) {
  boost::asio::io_context context;
  WorkPool pool{1};
  std::promise<void> begun;
  auto running = run_on(context, pool, [&] {
    begun.set_value();
    while (!pool.stop_token().stop_requested()) std::this_thread::yield();
  });
  auto waiting = run_on(context, pool, [] { BOOST_ERROR("a job that waited ran"); });
  context.poll();
  begun.get_future().wait();
  pool.join();
  context.restart();
  context.run();
  BOOST_TEST(!running.get());
  BOOST_TEST(!waiting.get());
}

BOOST_FIXTURE_TEST_CASE(a_server_that_stops_gives_up_prompts_that_are_being_encoded, ServerFixture) {
  door.state.engine.max_positions = 1 << 30;
  std::vector<HttpClient> clients;
  const std::string body = prompt_body(4'000'000);
  for (int i = 0; i < 3; ++i) {
    HttpClient& client = clients.emplace_back(connect());
    // The interim answer tells that the request was taken up: one that was not is closed like an idle connection.
    client.send(fmt::format("POST /tokenize HTTP/1.1\r\nHost: t\r\nExpect: 100-continue\r\nContent-Length: {}\r\n\r\n",
                            body.size()));
    BOOST_REQUIRE(client.read_head().status == 100);
    client.send(body);
  }
  BOOST_TEST(server.stop(60s) == 0U);
  for (HttpClient& client : clients) {
    const Answer answer = client.read_answer();
    BOOST_TEST(answer.status == 503);
    BOOST_TEST(answer.body.find(R"("code":"draining")") != std::string::npos);
  }
}

BOOST_FIXTURE_TEST_CASE(what_cannot_fit_the_context_is_not_tokenised, ServerFixture) {
  const std::size_t bytes = 4097 * tokenizer().token_bytes_max();
  for (const auto& [body, param] : {std::pair{prompt_body(bytes), "prompt"}, {message_body(bytes), "messages"}}) {
    const Answer answer = connect().post("/tokenize", body);
    BOOST_TEST(answer.status == 400);
    const text::Json json = json_of(answer.body);
    BOOST_TEST(string_at(json, "error.code") == "context_length_exceeded");
    BOOST_TEST(string_at(json, "error.param") == param);
    BOOST_TEST(string_at(json, "error.message").find("at least 4097 tokens") != std::string::npos);
  }
}

BOOST_FIXTURE_TEST_CASE(tokenize_takes_the_longest_prompt_of_chat_and_not_one_token_more, ServerFixture) {
  HttpClient client = connect();
  const auto count = json_of(client.post("/tokenize", message_body(5)).body);
  door.state.engine.max_positions = std::stoi(number_at(count, "count")) + 1;
  BOOST_TEST(client.post("/tokenize", message_body(5)).status == 200);
  door.state.engine.max_positions -= 1;
  BOOST_TEST(client.post("/tokenize", message_body(5)).status == 400);
  door.state.engine.max_positions = 3;
  BOOST_TEST(client.post("/detokenize", R"({"tokens":[5,6]})").status == 200);
  BOOST_TEST(client.post("/detokenize", R"({"tokens":[5,6,7]})").status == 400);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace tandem::net::http::test
