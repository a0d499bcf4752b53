// bench_cuda_step CONFIG_JSON [--blocks]: whole decode and verify steps of one rank of two, random weights, one device.
//
// The weights are those of rank 0 of a pair (gpu/model/random_model.hpp), the sum over ranks is this rank's own part:
// the step has every kernel of a real one and no exchange. Rows are one sequence's: one row is a decode step, more are
// a verify burst. Each figure is the mean of `steps` steps after a warm-up.
// `host us` is what the host spends until the step is launched, `ms` the time from one step's end to the next with the
// device never idle for long. With --blocks a step is also run operation by operation, each timed by itself behind a
// short delay that hides its launch.
#include <cuda_runtime_api.h>
#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <fstream>
#include <iterator>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "gpu/cuda/cuda_ops.hpp"
#include "gpu/cuda/stream.hpp"
#include "gpu/model/forward.hpp"
#include "gpu/model/random_model.hpp"
#include "gpu/state/cache_pools.hpp"
#include "tests/bench/cuda_delay.hpp"

using namespace tandem;
using namespace tandem::gpu;

namespace {

constexpr int steps = 12;
constexpr std::int64_t chunk = 2048;
constexpr std::int64_t longest = 600'000;

using Clock = std::chrono::steady_clock;

double micros_since(Clock::time_point start) {
  return std::chrono::duration<double, std::micro>(Clock::now() - start).count();
}

template <class T>
T require(Result<T> result) {
  if (!result) {
    fmt::print("{}\n", result.error().message());
    std::exit(1);
  }
  return std::move(*result);
}
void require(const Result<void>& result) {
  if (result) return;
  fmt::print("{}\n", result.error().message());
  std::exit(1);
}

// Times every operation by itself.
class Stopwatch final : public cuda::LaunchObserver {
 public:
  void before(const char* what, cudaStream_t stream) override {
    delay_stream(stream, 60'000);
    record(stream);
    names_.push_back(what);
  }
  void after(const char*, cudaStream_t stream) override { record(stream); }

  void print() {
    cudaDeviceSynchronize();
    std::map<std::string, std::pair<double, int>> totals;
    double all = 0;
    for (std::size_t i = 0; i < names_.size(); ++i) {
      float ms = 0;
      cudaEventElapsedTime(&ms, events_[2 * i], events_[2 * i + 1]);
      auto& [time, count] = totals[names_[i]];
      time += ms;
      ++count;
      all += ms;
    }
    std::vector<std::pair<double, std::string>> order;
    for (const auto& [name, total] : totals) order.emplace_back(total.first, name);
    std::sort(order.rbegin(), order.rend());
    for (const auto& [time, name] : order) {
      fmt::print("    {:18} {:5} x {:8.1f} us = {:7.2f} ms  {:4.1f} %\n", name, totals[name].second,
                 1e3 * time / totals[name].second, time, 100 * time / all);
    }
    fmt::print("    sum {:.2f} ms\n", all);
    for (const cudaEvent_t event : events_) cudaEventDestroy(event);
    events_.clear();
    names_.clear();
  }

 private:
  void record(cudaStream_t stream) {
    cudaEvent_t event = nullptr;
    cudaEventCreate(&event);
    cudaEventRecord(event, stream);
    events_.push_back(event);
  }
  std::vector<cudaEvent_t> events_;
  std::vector<const char*> names_;
};

// Entries and index keys of the whole sequence: random, so that scores differ as they do in service.
void fill_caches(const Model& model, SequenceState& sequence) {
  std::mt19937 engine(7);
  std::normal_distribution<float> normal;
  Workspace workspace(model.ops->memory());
  const auto write = [&](int width, auto cache, std::int64_t entries) {
    std::vector<float> values(static_cast<std::size_t>(chunk * width));
    for (float& value : values) value = normal(engine);
    const Tensor rows = workspace.f32(chunk, width);
    model.ops->memory().upload(std::as_bytes(std::span(values)), rows.data);
    for (std::int64_t first = 0; first < entries; first += chunk) {
      const std::int64_t count = std::min(chunk, entries - first);
      const std::vector<PagedRecords> caches(static_cast<std::size_t>(count), cache);
      std::vector<std::int32_t> numbers;
      for (std::int64_t i = 0; i < count; ++i) numbers.push_back(static_cast<std::int32_t>(first + i));
      model.ops->write_entries(rows.slice_rows(0, count), caches, numbers);
    }
  };
  for (const int layer : model.config.kv_sources) {
    const std::int64_t entries = longest / model.config.roles[static_cast<std::size_t>(layer)].ratio;
    write(model.config.head_dim, sequence.entries(layer), entries);
    write(model.config.index_head_dim, sequence.index_keys(layer), entries);
  }
  require(model.ops->wait());
}

struct Step {
  const Model& model;
  ForwardPass& forward;
  SequenceState& sequence;
  std::int32_t rows;

  void run(bool as_one) const {
    const std::int64_t first = sequence.length();
    const std::vector<std::int32_t> tokens(static_cast<std::size_t>(rows), 17);
    require(sequence.append(tokens));
    RowBatch batch;
    batch.add(sequence, first, rows);
    std::vector<std::int32_t> wanted;
    for (std::int32_t row = 0; row < rows; ++row) wanted.push_back(row);
    const auto body = [&]() -> Result<void> {
      const auto passed = forward.run(batch, {});
      if (!passed) return passed.error();
      const auto logits = forward.logits(*passed, wanted);
      if (!logits) return logits.error();
      return {};
    };
    require(as_one ? model.ops->run_as_one(body) : body());
  }
};

void measure(const Step& step, bool as_one) {
  for (int i = 0; i < 6; ++i) step.run(as_one);
  require(step.model.ops->wait());
  const CudaUse before = use_of(*step.model.ops);
  double host = 0;
  const auto start = Clock::now();
  for (int i = 0; i < steps; ++i) {
    const auto begin = Clock::now();
    step.run(as_one);
    host += micros_since(begin);
    require(step.model.ops->wait());
  }
  const double ms = micros_since(start) / 1e3 / steps;
  const CudaUse after = use_of(*step.model.ops);
  fmt::print("M={:<3} context {:>7} {:9} {:8.3f} ms  host {:7.1f} us  {} operations, {} nodes, {} allocations\n",
             step.rows, step.sequence.length(), as_one ? "graph" : "launches", ms, host / steps,
             (after.operations - before.operations) / steps, as_one ? after.graph_nodes : 0,
             after.allocations - before.allocations);
}

void extend(SequenceState& sequence, std::int64_t length) {
  while (sequence.length() < length) {
    const std::vector<std::int32_t> tokens(static_cast<std::size_t>(std::min(chunk, length - sequence.length())), 17);
    require(sequence.append(tokens));
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) return 2;
  const bool blocks = argc > 2 && std::strcmp(argv[2], "--blocks") == 0;
  std::ifstream file(argv[1]);
  const std::string text(std::istreambuf_iterator<char>(file), {});
  RandomModelOptions options;
  options.config = require(ModelConfig::parse(text, argv[1]));
  options.backend = "cuda";
  options.ranks = 2;
  options.max_positions = longest + chunk;
  options.draft = false;
  const auto communicator = make_solo_communicator();
  const auto start = Clock::now();
  const auto model = require(make_random_model(options, *communicator));
  fmt::print("random weights: {:.2f} GiB in {:.1f} s\n", static_cast<double>(model->weights.bytes) / (1 << 30),
             micros_since(start) / 1e6);
  CacheLimits limits;
  limits.max_positions = longest + chunk;
  limits.kv_tokens = longest + 2 * chunk;
  limits.chunk_rows_max = chunk;
  CachePools pools(require(plan_caches(model->config, model->numerics, limits)), model->ops->memory());
  ForwardPass forward(*model);
  const auto sequence = require(pools.open(longest + chunk));
  fill_caches(*model, *sequence);
  fmt::print("caches: {:.2f} GiB\n", static_cast<double>(pools.layout().total_bytes()) / (1 << 30));
  for (const std::int64_t context : {std::int64_t{1024}, std::int64_t{32768}, std::int64_t{131072}, longest}) {
    extend(*sequence, context);
    for (const std::int32_t rows : {1, 2, 4, 6, 16}) {
      const Step step{*model, forward, *sequence, rows};
      if (context == 1024) measure(step, false);
      measure(step, true);
      if (!blocks || (rows != 1 && rows != 6) || (context != 1024 && context != longest)) continue;
      Stopwatch watch;
      observe_launches(*model->ops, &watch);
      step.run(false);
      require(model->ops->wait());
      observe_launches(*model->ops, nullptr);
      watch.print();
    }
  }
  return 0;
}
