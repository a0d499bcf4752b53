// A server on a free port in front of the fake door, with the tiny model's tokenizer and a limits set that makes waits
// short.
#pragma once

#include "net/http/server.hpp"
#include "net/text/json/parse.hpp"
#include "tests/http/fake_front_door_fixture.hpp"
#include "tests/http/http_client_fixture.hpp"

#include <string>
#include <string_view>
#include <vector>

namespace tandem::net::http::test {

const text::Tokenizer& tokenizer();

// Returns the sampled tokens of a text; markers such as "</think>" become their tokens.
std::vector<gpu::SampledToken> tokens_of(std::string_view text);
// One step that ends the turn.
std::vector<gpu::SampledToken> end_of_turn();

// Returns a script that delivers each text as one step, then the end of turn.
Script answer_script(const std::vector<std::string>& texts);

// Returns {"messages":[{"role":"user","content":"hi"}]} plus `more` members (which begin with a comma).
std::string chat_body(std::string_view more = "");

text::Json json_of(std::string_view text);
// Follows "choices.0.message.content"; a missing member gives null.
text::Json at(const text::Json& json, std::string_view path);
std::string string_at(const text::Json& json, std::string_view path);
std::string number_at(const text::Json& json, std::string_view path);

struct ServerFixture {
  // Starts with the options as they are; tests that need others derive.
  explicit ServerFixture(ServerOptions options = default_options());
  static ServerOptions default_options();

  HttpClient connect() const { return HttpClient{port}; }
  Answer get(std::string_view path, std::string_view headers = "") const { return connect().get(path, headers); }
  Answer chat(std::string_view body, std::string_view headers = "") const {
    return connect().post("/v1/chat/completions", body, headers);
  }

  FakeFrontDoor door;
  HttpServer server;
  std::uint16_t port = 0;
};

}  // namespace tandem::net::http::test
