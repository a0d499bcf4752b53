// What happens to bytes: limits, framing, keep-alive, pipelining, slow and broken clients.
#include "net/http/head_rules.hpp"
#include "tests/http/server_fixture.hpp"

#include <fmt/format.h>
#include <boost/test/unit_test.hpp>

namespace tandem::net::http::test {

using namespace std::chrono_literals;

namespace {

struct SmallServer : ServerFixture {
  SmallServer() : ServerFixture(small_options()) {}
  static ServerOptions small_options() {
    ServerOptions options = default_options();
    options.limits.body_bytes = 2000;
    return options;
  }
};

struct ThriftyServer : ServerFixture {
  ThriftyServer() : ServerFixture(thrifty_options()) {}
  static ServerOptions thrifty_options() {
    ServerOptions options = default_options();
    options.limits.bodies_bytes = 2000;
    return options;
  }
};

struct CrowdedServer : ServerFixture {
  CrowdedServer() : ServerFixture(crowded_options()) {}
  static ServerOptions crowded_options() {
    ServerOptions options = default_options();
    options.limits.connections = 4;
    return options;
  }
};

struct ImpatientServer : ServerFixture {
  ImpatientServer() : ServerFixture(impatient_options()) {}
  static ServerOptions impatient_options() {
    ServerOptions options = default_options();
    options.limits.header_read = options.limits.body_stall = 150ms;
    options.limits.idle = 200ms;
    return options;
  }
};

struct BadRequest {
  std::string bytes;
  int status;
};

std::vector<BadRequest> bad_requests() {
  const std::string head = "POST /v1/chat/completions HTTP/1.1\r\nHost: t\r\n";
  const std::string get = "GET / HTTP/1.1\r\nHost: t\r\n";
  return {
      {"GARBAGE\r\n\r\n", 400},
      {"GET / HTTP/9.9\r\n\r\n", 400},
      {get + "broken header\r\n\r\n", 400},
      {get + ": nameless\r\n\r\n", 400},
      {head + "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n", 400},
      {head + "Content-Length: 5\r\nContent-Length: 6\r\n\r\n", 400},
      {"GET / HTTP/1.1\r\n\r\n", 400},
      {get + "host: other\r\n\r\n", 400},
      {"GET / HTTP/1.0\r\nHost: a\r\nHost: a\r\n\r\n", 400},
      {get + "X: one\r\n two\r\n\r\n", 400},
      {get + "X:\r\n\ttwo\r\n\r\n", 400},
      {"GET / HTTP/1.1\r\n Host: t\r\n\r\n", 400},
      {head + "Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n", 501},
      {head + "Transfer-Encoding: chunked, gzip\r\n\r\n", 400},
      {head + "Transfer-Encoding: gzip\r\n\r\n", 400},
      {head + "Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n", 501},
      {head + "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400},
      {"POST /tokenize HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400},
      {head + "Content-Length: -5\r\n\r\n", 400},
      {head + "Content-Length: 12x\r\n\r\n", 400},
      {head + "Transfer-Encoding: chunked\r\n\r\nzz\r\n", 400},
      {head + "Transfer-Encoding: chunked\r\n\r\n3\r\nabcXX5\r\n\r\n", 400},
      {"GET /" + std::string(9000, 'a') + " HTTP/1.1\r\nHost: t\r\n\r\n", 414},
      {"GET /" + std::string(40000, 'a'), 414},
      {get + "X: " + std::string(40000, 'a') + "\r\n\r\n", 431},
      {head + "Content-Length: 2001\r\n\r\n", 413},
      {head + "Transfer-Encoding: chunked\r\n\r\n7d1\r\n", 413},
      {head + "Content-Encoding: gzip\r\nContent-Length: 4\r\n\r\n", 415},
      {head + "Content-Type: text/plain\r\nContent-Length: 2\r\n\r\n{}", 415},
      {head + "Content-Type: application/jsonx\r\nContent-Length: 2\r\n\r\n{}", 415},
      {head + "Expect: a-miracle\r\nContent-Length: 2\r\n\r\n", 417},
      {"GET /nowhere HTTP/1.1\r\nHost: t\r\n\r\n", 404},
      {"GET /v1/models/none HTTP/1.1\r\nHost: t\r\n\r\n", 404},
      {"GET /v1/chat/completions HTTP/1.1\r\nHost: t\r\n\r\n", 405},
      {"DELETE /health HTTP/1.1\r\nHost: t\r\n\r\n", 405},
      {"POST /health HTTP/1.1\r\nHost: t\r\nContent-Length: 0\r\n\r\n", 405},
  };
}

}  // namespace

BOOST_AUTO_TEST_SUITE(transport)

BOOST_FIXTURE_TEST_CASE(every_broken_request_gets_its_status_and_an_error_object, SmallServer) {
  for (const BadRequest& bad : bad_requests()) {
    BOOST_TEST_CONTEXT(bad.bytes.substr(0, 100)) {
      HttpClient client = connect();
      client.send(bad.bytes);
      Answer answer = client.read_answer();
      BOOST_TEST(answer.status == bad.status);
      BOOST_TEST(string_at(json_of(answer.body), "error.message") != "(null)");
      BOOST_TEST(answer.headers["x-request-id"].starts_with("req_"));
    }
  }
  BOOST_TEST(get("/health").status == 200);
}

BOOST_FIXTURE_TEST_CASE(a_body_of_exactly_the_limit_is_read, SmallServer) {
  door.script = answer_script({"</think>", "ok"});
  std::string body = chat_body();
  body.resize(2000, ' ');
  BOOST_TEST(chat(body).status == 200);
}

BOOST_AUTO_TEST_CASE(folded_lines_are_seen_however_the_bytes_are_cut) {
  const std::string folded = "GET / HTTP/1.1\r\nHost: t\r\nX: a\r\n b\r\n\r\n";
  const std::string plain = "GET / HTTP/1.1\r\nHost: t\r\nX: a\r\n\r\n { \n  a body }";
  for (const bool is_folded : {true, false}) {
    const std::string& bytes = is_folded ? folded : plain;
    for (std::size_t cut = 0; cut <= bytes.size(); ++cut) {
      FoldWatch watch;
      watch.see(std::string_view(bytes).substr(0, cut));
      watch.see(std::string_view(bytes).substr(cut));
      BOOST_TEST(watch.has_fold() == is_folded, "cut at " << cut);
    }
  }
}

BOOST_FIXTURE_TEST_CASE(bodies_of_all_connections_share_a_bound, ThriftyServer) {
  const std::string body(1500, ' ');
  HttpClient first = connect();
  first.send(post_text("/tokenize", body).substr(0, 1400));  // held until its rest comes
  // What is not yet known to be held by the first may still be given to others: ask until it is.
  Answer second;
  const auto give_up = std::chrono::steady_clock::now() + 60s;
  do second = connect().post("/tokenize", body);
  while (second.status != 503 && std::chrono::steady_clock::now() < give_up);
  BOOST_TEST(second.status == 503);
  BOOST_TEST(second.headers.contains("retry-after"));
  BOOST_TEST(string_at(json_of(second.body), "error.type") == "server_error");
  first.close();
  do second = connect().post("/tokenize", R"({"prompt":"hi"})");
  while (second.status != 200 && std::chrono::steady_clock::now() < give_up);
  BOOST_TEST(second.status == 200);
}

BOOST_FIXTURE_TEST_CASE(a_body_is_given_back_when_its_request_is_read, ThriftyServer) {
  HttpClient waiting = connect();
  std::string body = chat_body();
  body.resize(1500, ' ');
  waiting.send(post_text("/v1/chat/completions", body));
  door.request(0);  // read, and waiting for its answer
  BOOST_TEST(connect().post("/tokenize", R"({"prompt":")" + std::string(1200, 'a') + "\"}").status == 200);
}

BOOST_FIXTURE_TEST_CASE(a_slow_header_and_a_slow_body_time_out, ImpatientServer) {
  HttpClient header = connect();
  header.send("GET /health HT");
  BOOST_TEST(header.read_answer().status == 408);
  HttpClient body = connect();
  body.send("POST /tokenize HTTP/1.1\r\nHost: t\r\nContent-Length: 10\r\n\r\n{\"p");
  BOOST_TEST(body.read_answer().status == 408);
}

BOOST_FIXTURE_TEST_CASE(an_idle_connection_is_closed_without_a_word, ImpatientServer) {
  HttpClient client = connect();
  BOOST_TEST(client.is_closed_by_server());
  HttpClient used = connect();
  BOOST_TEST(used.get("/livez").status == 200);
  BOOST_TEST(used.is_closed_by_server());
}

BOOST_FIXTURE_TEST_CASE(one_connection_too_many_is_told_503, CrowdedServer) {
  std::vector<HttpClient> clients;
  for (int i = 0; i < 4; ++i) {
    clients.push_back(connect());
    clients.back().send("GET /livez HTTP/1.1\r\nHost: t\r\n\r\n");
    BOOST_TEST(clients.back().read_answer().status == 200);
  }
  HttpClient fifth = connect();
  fifth.send("GET /livez HTTP/1.1\r\nHost: t\r\n\r\n");
  BOOST_TEST(fifth.read_answer().status == 503);
}

BOOST_FIXTURE_TEST_CASE(a_request_may_be_cut_at_every_byte, ServerFixture) {
  door.script = answer_script({"</think>", "ok"});
  const std::string bytes = post_text("/v1/chat/completions", chat_body());
  HttpClient client = connect();
  for (std::size_t cut = 1; cut < bytes.size(); ++cut) {
    client.send(std::string_view(bytes).substr(0, cut));
    client.send(std::string_view(bytes).substr(cut));
    const Answer answer = client.read_answer();
    BOOST_TEST_REQUIRE(answer.status == 200, "cut at " << cut);
  }
}

BOOST_FIXTURE_TEST_CASE(a_chunked_body_is_read_like_any_other, ServerFixture) {
  door.script = answer_script({"</think>", "ok"});
  const std::string body = chat_body();
  std::string bytes = "POST /v1/chat/completions HTTP/1.1\r\nHost: t\r\nTransfer-Encoding: chunked\r\n\r\n";
  for (const char c : body) bytes += fmt::format("1\r\n{}\r\n", c);
  HttpClient client = connect();
  client.send(bytes + "0\r\n\r\n");
  BOOST_TEST(client.read_answer().status == 200);
  BOOST_TEST(client.get("/livez").status == 200);
}

BOOST_FIXTURE_TEST_CASE(a_head_is_refused_one_byte_beyond_its_limit_whatever_its_lines, ServerFixture) {
  const std::size_t limit = default_options().limits.header_bytes;
  std::string head = "GET /livez HTTP/1.1\r\nHost: t\r\n";
  while (head.size() + 6 + 8 < limit) head += "a: b\r\n";
  const std::string last = "c: " + std::string(limit - head.size() - 7, 'd') + "\r\n\r\n";
  HttpClient client = connect();
  client.send(head + last);
  BOOST_TEST(client.read_answer().status == 200);
  client.send(head + "d" + last);
  BOOST_TEST(client.read_answer().status == 431);
}

BOOST_FIXTURE_TEST_CASE(a_client_that_expects_100_is_told_to_go_on, ServerFixture) {
  HttpClient client = connect();
  const std::string body = R"({"prompt":"hi"})";
  client.send(fmt::format("POST /tokenize HTTP/1.1\r\nHost: t\r\nExpect: 100-continue\r\nContent-Length: {}\r\n\r\n",
                          body.size()));
  BOOST_TEST(client.read_head().status == 100);
  client.send(body);
  BOOST_TEST(client.read_answer().status == 200);
}

BOOST_FIXTURE_TEST_CASE(pipelined_requests_are_answered_in_order, ServerFixture) {
  door.script = answer_script({"</think>", "ok"});
  HttpClient client = connect();
  client.send("GET /livez HTTP/1.1\r\nHost: t\r\n\r\n" +
              post_text("/v1/chat/completions", chat_body(R"(,"stream":true)")) +
              "GET /version HTTP/1.1\r\nHost: t\r\n\r\nGET /health HTTP/1.1\r\nHost: t\r\nConnection: close\r\n\r\n");
  BOOST_TEST(client.read_answer().body == R"({"status":"ok"})");
  BOOST_TEST(client.read_answer().body.ends_with("data: [DONE]\n\n"));
  BOOST_TEST(string_at(json_of(client.read_answer().body), "version") == "0.1.0");
  BOOST_TEST(client.read_answer().headers.at("connection") == "close");
  BOOST_TEST(client.is_closed_by_server());
}

BOOST_FIXTURE_TEST_CASE(http_1_0_gets_an_unchunked_stream_and_a_close, ServerFixture) {
  door.script = answer_script({"</think>", "ok"});
  const std::string body = chat_body(R"(,"stream":true)");
  HttpClient client = connect();
  client.send(fmt::format("POST /v1/chat/completions HTTP/1.0\r\nContent-Length: {}\r\n\r\n{}", body.size(), body));
  const Answer answer = client.read_answer();
  BOOST_TEST(!answer.headers.contains("transfer-encoding"));
  BOOST_TEST(answer.body.ends_with("data: [DONE]\n\n"));
}

BOOST_FIXTURE_TEST_CASE(http_1_0_is_closed_even_if_it_asks_to_be_kept, ServerFixture) {
  HttpClient client = connect();
  client.send("GET /livez HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
  BOOST_TEST(client.read_answer().headers.at("connection") == "close");
  BOOST_TEST(client.is_closed_by_server());
}

BOOST_FIXTURE_TEST_CASE(head_gives_the_length_without_the_body, ServerFixture) {
  HttpClient client = connect();
  client.send("HEAD /v1/models HTTP/1.1\r\nHost: t\r\n\r\n");
  const Answer head = client.read_answer(false);
  const Answer full = client.get("/v1/models");
  BOOST_TEST(head.headers.at("content-length") == std::to_string(full.body.size()));
}

BOOST_FIXTURE_TEST_CASE(the_request_id_of_the_client_is_echoed_if_it_is_fit, ServerFixture) {
  BOOST_TEST(get("/livez", "x-request-id: abc-1\r\n").headers.at("x-request-id") == "abc-1");
  BOOST_TEST(get("/livez", "x-request-id: a b\r\n").headers.at("x-request-id").starts_with("req_"));
  BOOST_TEST(
      get("/livez", "x-request-id: " + std::string(129, 'a') + "\r\n").headers.at("x-request-id").starts_with("req_"));
}

BOOST_AUTO_TEST_CASE(a_port_in_use_is_an_error_that_names_it) {
  ServerFixture first;
  ServerOptions options = ServerFixture::default_options();
  options.port = first.port;
  HttpServer second{first.door, tokenizer(), options};
  const auto started = second.start();
  BOOST_REQUIRE(started.has_error());
  BOOST_TEST((started.error().code == ErrorCode::unavailable));
  BOOST_TEST(started.error().message().find(std::to_string(first.port)) != std::string::npos);
}

BOOST_AUTO_TEST_CASE(a_host_name_is_no_listen_address) {
  FakeFrontDoor door;
  ServerOptions options = ServerFixture::default_options();
  options.host = "example.org";
  HttpServer server{door, tokenizer(), options};
  BOOST_TEST((server.start().error().code == ErrorCode::bad_config));
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace tandem::net::http::test
