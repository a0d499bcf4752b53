// Events around operations, summed by name.
#include "gpu/cuda/bench/stopwatch.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <ostream>

#include "gpu/cuda/bench/bench_kernels.hpp"

namespace tandem::gpu::cuda::bench {
namespace {

constexpr std::int64_t delay_ns = 30'000;  // longer than any launch takes

struct Total {
  std::string name;
  double ms = 0;
  int calls = 0;
};

}  // namespace

void Stopwatch::before(const char* what, cudaStream_t stream) {
  (void)delay(stream, delay_ns);
  record(stream);
  names_.push_back(what);
}

void Stopwatch::after(const char*, cudaStream_t stream) {
  record(stream);
}

std::vector<const char*> Stopwatch::names() const {
  std::map<std::string, const char*> all;
  for (const char* name : names_) all.emplace(name, name);
  std::vector<const char*> names;
  for (const auto& [text, name] : all) names.push_back(name);
  return names;
}

void Stopwatch::record(cudaStream_t stream) {
  cudaEvent_t event = nullptr;
  (void)cudaEventCreate(&event);
  (void)cudaEventRecord(event, stream);
  events_.emplace_back(event, &cudaEventDestroy);
}

void Stopwatch::write(std::ostream& out, bool json) {
  std::map<std::string, Total> totals;
  double all = 0;
  for (std::size_t i = 0; i < names_.size(); ++i) {
    float ms = 0;
    (void)cudaEventElapsedTime(&ms, events_[2 * i].get(), events_[2 * i + 1].get());
    Total& total = totals[names_[i]];
    total.name = names_[i];
    total.ms += ms;
    ++total.calls;
    all += ms;
  }
  std::vector<Total> order;
  for (const auto& [name, total] : totals) order.push_back(total);
  std::sort(order.begin(), order.end(), [](const Total& a, const Total& b) { return a.ms > b.ms; });
  for (const Total& total : order) {
    out << (json ? fmt::format(R"({{"bench":"operation","name":"{}","calls":{},"ms":{:.4f}}})"
                               "\n",
                               total.name, total.calls, total.ms)
                 : fmt::format("    {:18} {:5} x {:8.1f} us = {:7.2f} ms  {:4.1f} %\n", total.name, total.calls,
                               1e3 * total.ms / total.calls, total.ms, 100 * total.ms / all));
  }
  if (!json) out << fmt::format("    sum {:.2f} ms\n", all);
  out << std::flush;
  events_.clear();
  names_.clear();
}

}  // namespace tandem::gpu::cuda::bench
