// HttpServer: the HTTP front end in one object. Owns its threads; talks to the actors through the FrontDoor only.
#pragma once

#include "actors/front_door.hpp"
#include "engram/error.hpp"
#include "net/http/options.hpp"
#include "net/text/tokenizer.hpp"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>

namespace tandem::net::http {

class HttpServer {
 public:
  // `door` and `tokenizer` must outlive the server. options.model_names must not be empty.
  HttpServer(actors::FrontDoor& door, const text::Tokenizer& tokenizer, ServerOptions options);
  ~HttpServer();  // stops at once
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  // Binds and serves; returns the bound port. Errors: bad_config (address, no model name), unavailable (port in use),
  // io. The node need not be ready: /health says so and generating routes answer 503 until it is.
  Result<std::uint16_t> start();
  // Stops accepting and gives up prompts that are being encoded; answers in progress get `patience`, then an error
  // event (code "draining"), then their sockets are closed. Returns how many connections had to be cut. Idempotent.
  std::size_t stop(std::chrono::milliseconds patience);
  std::size_t connections() const;
  // The configured bound, or what the descriptor limit allows.
  std::size_t connections_max() const;

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

}  // namespace tandem::net::http
