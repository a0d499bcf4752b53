// Clients that leave, clients that do not read, and a server that stops while it answers.
#include "tests/http/server_fixture.hpp"

#include <boost/test/unit_test.hpp>

#include <fmt/format.h>

#include <future>

namespace tandem::net::http::test {

using namespace std::chrono_literals;

namespace {

const std::string stream_request =
    post_text("/v1/chat/completions", chat_body(R"(,"stream":true,"enable_thinking":false)"));

struct QuietServer : ServerFixture {
  QuietServer() : ServerFixture(quiet_options()) {}
  static ServerOptions quiet_options() {
    ServerOptions options = default_options();
    options.keepalive = 50ms;
    options.limits.write_stall = 300ms;
    options.limits.unsent_bytes = 20'000;
    return options;
  }
};

}  // namespace

BOOST_FIXTURE_TEST_SUITE(departure, QuietServer)

BOOST_AUTO_TEST_CASE(the_first_event_comes_before_the_first_token) {
  HttpClient client = connect();
  client.send(stream_request);
  BOOST_TEST(client.read_head().status == 200);
  BOOST_TEST(client.read_event().find(R"("role":"assistant")") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(a_silent_stream_is_kept_alive_by_comments) {
  HttpClient client = connect();
  client.send(stream_request);
  client.read_head();
  client.read_event();
  BOOST_TEST(client.read_event() == ": keep-alive\n\n");
  BOOST_TEST(client.read_event() == ": keep-alive\n\n");
  door.emit(0, end_of_turn());
  door.finish(0, actors::FinishReason::stop);
  BOOST_TEST(client.read_answer().status == 0);  // the rest of the stream, no new head
}

BOOST_AUTO_TEST_CASE(tokens_that_the_client_does_not_see_do_not_silence_the_keepalive) {
  HttpClient client = connect();
  client.send(post_text("/v1/chat/completions", chat_body(R"(,"stream":true,"include_reasoning":false)")));
  client.read_head();
  client.read_event();
  std::promise<void> heard;
  const auto hidden = tokens_of("hm"), end = end_of_turn();
  auto was_heard_while_tokens_came = std::async(std::launch::async, [&, is_heard = heard.get_future()] {
    bool was_heard = false;
    for (int token = 0; token < 2000 && !was_heard; ++token) {  // one every 10 ms, a fifth of the keep-alive's time
      door.emit(0, hidden);
      was_heard = is_heard.wait_for(10ms) == std::future_status::ready;
    }
    door.emit(0, end);
    door.finish(0, actors::FinishReason::stop);
    return was_heard;
  });
  BOOST_TEST(client.read_event() == ": keep-alive\n\n");
  heard.set_value();
  BOOST_TEST(was_heard_while_tokens_came.get());
}

BOOST_AUTO_TEST_CASE(a_client_that_leaves_cancels_its_stream) {
  HttpClient client = connect();
  client.send(stream_request);
  client.read_head();
  client.read_event();
  client.close();
  BOOST_TEST(door.wait_cancelled(0));
  BOOST_TEST(!door.emit(0, tokens_of("nobody")));
}

BOOST_AUTO_TEST_CASE(a_reset_cancels_as_well) {
  HttpClient client = connect();
  client.send(stream_request);
  client.read_head();
  client.read_event();
  client.reset();
  BOOST_TEST(door.wait_cancelled(0));
}

BOOST_AUTO_TEST_CASE(a_client_that_leaves_cancels_all_choices_of_a_whole_answer) {
  HttpClient client = connect();
  client.send(post_text("/v1/chat/completions", chat_body(R"(,"n":2)")));
  door.request(1);
  client.close();
  BOOST_TEST(door.wait_cancelled(0));
  BOOST_TEST(door.wait_cancelled(1));
}

BOOST_AUTO_TEST_CASE(a_client_that_only_said_all_it_had_to_say_gets_its_whole_answer) {
  HttpClient client = connect();
  client.send(post_text("/v1/chat/completions", chat_body(R"(,"enable_thinking":false)")));
  door.request(0);
  client.half_close();
  BOOST_TEST(client.read_head().status == 100);  // the server asks the kernel behind it whether anybody is there
  door.emit(0, tokens_of("late"));
  door.emit(0, end_of_turn());
  door.finish(0, actors::FinishReason::stop);
  const Answer answer = client.read_answer();
  BOOST_TEST(answer.status == 200);
  BOOST_TEST(string_at(json_of(answer.body), "choices.0.message.content") == "late");
}

BOOST_AUTO_TEST_CASE(a_half_closed_stream_is_given_up) {
  HttpClient client = connect();
  client.send(stream_request);
  client.read_head();
  client.half_close();
  BOOST_TEST(door.wait_cancelled(0));
}

BOOST_AUTO_TEST_CASE(leaving_is_noticed_behind_a_pipelined_request) {
  HttpClient client = connect();
  client.send(stream_request + "GET /livez HTTP/1.1\r\nHost: t\r\n\r\n");
  client.read_head();
  client.close();
  BOOST_TEST(door.wait_cancelled(0));
}

BOOST_AUTO_TEST_CASE(a_reader_that_does_not_read_is_given_up) {
  HttpClient client = connect();
  client.shrink_receive_buffer();
  client.send(stream_request);
  client.read_head();
  std::vector<gpu::SampledToken> burst;
  while (burst.size() < 90) {
    const auto more = tokens_of("many words without any end at all");
    burst.insert(burst.end(), more.begin(), more.end());
  }
  burst.resize(90);
  // The kernel takes a few megabytes before a write stalls; the bound of the inbox ends it.
  for (int i = 0; i < 200'000 && door.emit(0, burst); ++i) {
  }
  BOOST_TEST(door.wait_cancelled(0));
  const std::string page = get("/metrics").body;
  const std::string counted = "\ntandem:http_slow_readers_total{engine=\"0\",model_name=\"tandem\"} 1\n";
  BOOST_TEST(page.find(counted) != std::string::npos, page);
}

struct RoomyServer : ServerFixture {
  RoomyServer() : ServerFixture(roomy_options()) {}
  static ServerOptions roomy_options() {
    ServerOptions options = QuietServer::quiet_options();
    options.limits.unsent_bytes = std::size_t{1} << 40;
    return options;
  }
};

BOOST_FIXTURE_TEST_CASE(a_reader_that_stops_is_given_up_as_slow_and_not_as_gone, RoomyServer) {
  HttpClient client = connect();
  client.shrink_receive_buffer();
  // With its logarithms a token takes a hundred bytes on the wire.
  client.send(
      post_text("/v1/chat/completions", chat_body(R"(,"stream":true,"enable_thinking":false,"logprobs":true)")));
  client.read_head();
  std::vector<gpu::SampledToken> burst;
  while (burst.size() < 900) {
    const auto more = tokens_of("many words without any end at all");
    burst.insert(burst.end(), more.begin(), more.end());
  }
  // No bound of the inbox here: only the kernel's buffers fill up, and a write stalls.
  for (int i = 0; i < 300 && door.emit(0, burst); ++i) {
  }
  BOOST_TEST(door.wait_cancelled(0));
  const std::string page = get("/metrics").body;
  const auto counted = [&page](std::string_view name) {
    return page.find(fmt::format("\n{}{{engine=\"0\",model_name=\"tandem\"}} 1\n", name)) != std::string::npos;
  };
  BOOST_TEST(counted("tandem:http_slow_readers_total"), page);
  BOOST_TEST(!counted("tandem:http_disconnects_total"), page);
}

BOOST_AUTO_TEST_CASE(stop_with_patience_lets_a_stream_finish) {
  HttpClient client = connect();
  client.send(stream_request);
  client.read_head();
  auto stopping = std::async(std::launch::async, [&] { return server.stop(60s); });
  door.emit(0, tokens_of("ok"));
  door.emit(0, end_of_turn());
  door.finish(0, actors::FinishReason::stop);
  std::string last;
  for (std::string event = client.read_event(); !event.empty(); event = client.read_event()) last = event;
  BOOST_TEST(last == "data: [DONE]\n\n");
  BOOST_TEST(stopping.get() == 0U);
  BOOST_TEST(server.connections() == 0U);
}

BOOST_AUTO_TEST_CASE(stop_without_patience_ends_streams_with_an_error_event) {
  HttpClient client = connect();
  client.send(stream_request);
  client.read_head();
  client.read_event();
  BOOST_TEST(server.stop(0ms) == 0U);
  std::vector<std::string> events;
  for (std::string event = client.read_event(); !event.empty(); event = client.read_event()) events.push_back(event);
  BOOST_REQUIRE(events.size() >= 2);
  BOOST_TEST(events.back() == "data: [DONE]\n\n");
  BOOST_TEST(events[events.size() - 2].find(R"("code":"draining")") != std::string::npos);
  BOOST_TEST(door.wait_cancelled(0));
}

BOOST_AUTO_TEST_CASE(stop_closes_idle_connections_and_may_be_repeated) {
  HttpClient idle = connect();
  BOOST_TEST(idle.get("/livez").status == 200);
  BOOST_TEST(server.stop(60s) == 0U);
  BOOST_TEST(idle.is_closed_by_server());
  BOOST_TEST(server.stop(60s) == 0U);
  BOOST_CHECK_THROW(connect(), std::runtime_error);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace tandem::net::http::test
