// One mutex with its data; the histograms start with their bounds and zero counts, so that every series exists from the
// first scrape.
#include "net/http/http_counters.hpp"

#include <algorithm>

namespace tandem::net::http {
namespace {

actors::Histogram make_histogram(std::vector<double> bounds) {
  actors::Histogram histogram;
  histogram.counts.assign(bounds.size() + 1, 0);
  histogram.bounds = std::move(bounds);
  return histogram;
}

void observe(actors::Histogram& histogram, double value) {
  const auto bound = std::ranges::lower_bound(histogram.bounds, value);
  ++histogram.counts[static_cast<std::size_t>(bound - histogram.bounds.begin())];
  histogram.sum += value;
  ++histogram.count;
}

}  // namespace

HttpCounters::HttpCounters() {
  counts_.max_tokens =
      make_histogram({1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000, 20000, 50000, 100000});
  counts_.choices = make_histogram({1, 2, 5, 10, 20});
}

HttpCounts HttpCounters::read() const {
  std::lock_guard lock{mutex_};
  return counts_;
}

void HttpCounters::count_response(std::string_view route, int status) {
  std::lock_guard lock{mutex_};
  ++counts_.responses[{std::string(route), status}];
}

void HttpCounters::count_disconnect() {
  std::lock_guard lock{mutex_};
  ++counts_.disconnects;
}

void HttpCounters::count_slow_reader() {
  std::lock_guard lock{mutex_};
  ++counts_.slow_readers;
}

void HttpCounters::count_request(std::uint32_t max_tokens, int choices) {
  std::lock_guard lock{mutex_};
  if (max_tokens > 0) observe(counts_.max_tokens, max_tokens);
  observe(counts_.choices, choices);
}

void HttpCounters::count_usage(const actors::Usage& usage) {
  std::lock_guard lock{mutex_};
  counts_.prompt_tokens += usage.prompt_tokens;
  counts_.cached_tokens += usage.cached_tokens;
}

}  // namespace tandem::net::http
