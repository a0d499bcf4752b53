// A whole node over the golden checkpoint, and a client that waits: what tests with real threads and engines share.
#pragma once

#include <boost/test/unit_test.hpp>
#include <condition_variable>
#include <future>
#include <mutex>

#include "actors/node.hpp"
#include "tests/build_paths.hpp"

namespace tandem::actors::real {

inline constexpr auto patience = std::chrono::seconds(120);

struct WaitingSink : TokenSink {
  std::mutex mutex;
  std::condition_variable changed;
  std::vector<gpu::TokenId> tokens;
  bool is_over = false;
  Rejection rejection;
  Finish finish;
  void on_accepted(std::uint32_t) override {}
  void on_rejected(const Rejection& r) override {
    std::lock_guard lock{mutex};
    rejection = r;
    is_over = true;
    changed.notify_all();
  }
  bool on_tokens(std::vector<gpu::SampledToken> batch) override {
    std::lock_guard lock{mutex};
    for (const auto& token : batch) tokens.push_back(token.id);
    changed.notify_all();
    return true;
  }
  void on_finished(const Finish& f) override {
    std::lock_guard lock{mutex};
    finish = f;
    is_over = true;
    changed.notify_all();
  }
  bool wait_for_a_token() {
    std::unique_lock lock{mutex};
    return changed.wait_for(lock, patience, [this] { return !tokens.empty(); });
  }
  bool wait() {
    std::unique_lock lock{mutex};
    return changed.wait_for(lock, patience, [this] { return is_over; });
  }
};

// A node that is being started, and how that ended.
struct Starting {
  std::promise<std::string> outcome;  // "ready" or the reason
  std::once_flag once;
  void settle(const std::string& text) {
    std::call_once(once, [&] { outcome.set_value(text); });
  }
};

inline NodeOptions options_for(const std::shared_ptr<Starting>& starting, int ranks) {
  NodeOptions options;
  options.engine.model = golden_model_folder().string() + "/ckpt";
  options.engine.lanes_max = 4;
  options.engine.max_positions = 256;
  options.engine.chunk_rows_max = 64;
  options.engine.threads = 1;
  options.ranks = ranks;
  options.build_id = "test";
  options.config_hash = "test";
  options.restart_delay = std::chrono::milliseconds(10);
  options.on_ready = [starting](const gpu::EngineInfo&) { starting->settle("ready"); };
  options.on_fatal = [starting](int, const std::string& reason) { starting->settle(reason); };
  return options;
}

inline std::unique_ptr<HeadNode> start_ready(int ranks, SpeculationPolicy speculation = {}) {
  auto starting = std::make_shared<Starting>();
  auto options = options_for(starting, ranks);
  options.speculation = speculation;
  auto head = start_head(std::move(options));
  BOOST_REQUIRE(head.has_value());
  auto outcome = starting->outcome.get_future();
  BOOST_REQUIRE((outcome.wait_for(patience) == std::future_status::ready));
  BOOST_REQUIRE_EQUAL(outcome.get(), "ready");
  return std::move(*head);
}

inline std::shared_ptr<WaitingSink> submit(HeadNode& head, std::size_t prompt, std::uint32_t max_tokens,
                                           float temperature = 0) {
  auto sink = std::make_shared<WaitingSink>();
  GenerationRequest request;
  for (std::size_t i = 0; i < prompt; ++i) request.prompt.push_back(static_cast<gpu::TokenId>(3 + (i * 37) % 200));
  request.max_tokens = max_tokens;
  request.sampling.temperature = temperature;
  request.sampling.seed = 9;
  head.front_door().submit(std::move(request), sink);
  return sink;
}

}  // namespace tandem::actors::real
