// Puts the parts together; the order of members is the order of their lives.
#include "net/http/server.hpp"

#include "net/http/api.hpp"
#include "net/http/http_counters.hpp"
#include "net/http/listener.hpp"
#include "net/http/work_pool.hpp"

#include <ctime>
#include <utility>

namespace tandem::net::http {

struct HttpServer::Parts {
  Parts(actors::FrontDoor& door, const text::Tokenizer& tokenizer, ServerOptions given)
      : options(std::move(given)),
        pool(options.encode_threads),
        context{door, tokenizer, options, pool, counters, static_cast<std::int64_t>(std::time(nullptr))},
        api(context),
        listener(api, options.limits, options.io_threads) {}

  const ServerOptions options;
  HttpCounters counters;
  WorkPool pool;
  const ApiContext context;
  Api api;
  Listener listener;
};

HttpServer::HttpServer(actors::FrontDoor& door, const text::Tokenizer& tokenizer, ServerOptions options)
    : parts_(std::make_unique<Parts>(door, tokenizer, std::move(options))) {}

HttpServer::~HttpServer() {
  stop(std::chrono::milliseconds{0});
  parts_->pool.join();  // its jobs end in the listener's contexts, which are destroyed before the pool
}

Result<std::uint16_t> HttpServer::start() {
  const ServerOptions& options = parts_->options;
  if (options.model_names.empty()) return Error{ErrorCode::bad_config, "model names", "none", "at least one"};
  return parts_->listener.start({options.host, options.port});
}

std::size_t HttpServer::stop(std::chrono::milliseconds patience) {
  parts_->pool.stop();  // what is still being read would only be refused
  return parts_->listener.stop(patience);
}

std::size_t HttpServer::connections_max() const {
  return parts_->listener.connections_max();
}

std::size_t HttpServer::connections() const {
  return parts_->listener.connections();
}

}  // namespace tandem::net::http
