// See runtime_snapshot.hpp. The bucket bounds are those that existing dashboards of serving engines use.
#include "actors/runtime_snapshot.hpp"

#include <algorithm>

namespace tandem::actors {

const char* to_string(NodeState state) noexcept {
  switch (state) {
    case NodeState::init:
      return "init";
    case NodeState::preflight:
      return "preflight";
    case NodeState::rendezvous:
      return "rendezvous";
    case NodeState::selfcheck:
      return "selfcheck";
    case NodeState::loading:
      return "loading";
    case NodeState::building:
      return "building";
    case NodeState::warmup:
      return "warmup";
    case NodeState::ready:
      return "ready";
    case NodeState::draining:
      return "draining";
    case NodeState::stopped:
      return "stopped";
    case NodeState::failed:
      return "failed";
  }
  return "unknown";
}

void Histogram::observe(double value) {
  const auto bucket = std::lower_bound(bounds.begin(), bounds.end(), value) - bounds.begin();
  ++counts[static_cast<std::size_t>(bucket)];
  sum += value;
  ++count;
}

namespace {

Histogram make_histogram(std::vector<double> bounds) {
  Histogram histogram;
  histogram.counts.assign(bounds.size() + 1, 0);
  histogram.bounds = std::move(bounds);
  return histogram;
}

std::vector<double> latency_bounds() {
  return {0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75,
          1,     2.5,   5,    7.5,  10,   20,   40,   80,  160,  640, 2560};
}

std::vector<double> token_bounds() {
  return {1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000, 20000, 50000, 100000, 200000, 500000, 1000000};
}

}  // namespace

SnapshotBoard::SnapshotBoard() {
  for (Histogram* h :
       {&snapshot_.time_to_first_token, &snapshot_.inter_token_latency, &snapshot_.request_latency,
        &snapshot_.queue_time, &snapshot_.prefill_time, &snapshot_.decode_time, &snapshot_.inference_time})
    *h = make_histogram(latency_bounds());
  for (Histogram* h : {&snapshot_.prompt_length, &snapshot_.generation_length, &snapshot_.step_tokens})
    *h = make_histogram(token_bounds());
}

RuntimeSnapshot SnapshotBoard::read() const {
  std::lock_guard lock{mutex_};
  return snapshot_;
}

}  // namespace tandem::actors
