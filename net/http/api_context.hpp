// ApiContext: what every route may use. Owned by the HttpServer; lives longer than any request.
#pragma once

#include "actors/front_door.hpp"
#include "net/http/http_counters.hpp"
#include "net/http/options.hpp"
#include "net/http/work_pool.hpp"
#include "net/text/tokenizer.hpp"

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>

namespace tandem::net::http {

struct ApiContext {
  actors::FrontDoor& door;
  const text::Tokenizer& tokenizer;
  const ServerOptions& options;
  WorkPool& pool;
  HttpCounters& counters;
  std::int64_t started = 0;  // Unix seconds

  bool serves(std::string_view model) const {
    return std::ranges::find(options.model_names, model) != options.model_names.end();
  }
  // Ids that the model has logits for; the tokenizer's count until the model is loaded.
  std::int64_t vocab_size(const actors::RuntimeSnapshot& snapshot) const {
    return snapshot.engine.vocab_size > 0 ? snapshot.engine.vocab_size
                                          : static_cast<std::int64_t>(tokenizer.vocabulary_size());
  }
};

}  // namespace tandem::net::http
