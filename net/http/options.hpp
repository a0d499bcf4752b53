// What the HTTP front end can be told. Filled by the executable from its configuration.
#pragma once

#include "net/http/limits.hpp"
#include "net/text/chat.hpp"

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

namespace tandem::net::http {

// The name under which reasoning reaches the client.
enum class ReasoningField { reasoning_content, reasoning, both };

struct ServerOptions {
  std::string host = "127.0.0.1";
  std::uint16_t port = 8000;  // 0: any free one, see HttpServer::start()
  int io_threads = 2;
  int encode_threads = 2;                             // for prompts and /tokenize
  std::vector<std::string> keys;                      // bearer keys; none: everything is allowed
  bool has_open_metrics = false;                      // /metrics without a key
  std::vector<std::string> model_names = {"tandem"};  // the first is canonical, the rest are aliases
  std::vector<std::string> cors_origins;              // "*" or exact origins; none: no CORS
  std::chrono::milliseconds keepalive{10'000};        // comment line on a silent stream
  ReasoningField reasoning_field = ReasoningField::reasoning_content;
  int choices_max = 16;   // largest n
  text::ChatConfig chat;  // reasoning defaults, effort words, tool limits
  std::string version = "0.1.0";
  std::string build = "dev";  // system_fingerprint is "fp_" + build
  std::string configuration;  // said by /livez, so that a second instance knows its twin; a hash, nothing secret
  Limits limits;
};

}  // namespace tandem::net::http
