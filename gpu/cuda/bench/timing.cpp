// Events around launches and replays.
#include "gpu/cuda/bench/timing.hpp"

#include <algorithm>
#include <vector>

namespace tandem::gpu::cuda::bench {
namespace {

using Event = std::unique_ptr<CUevent_st, decltype(&cudaEventDestroy)>;

Event make_event(Stream& stream) {
  cudaEvent_t event = nullptr;
  stream.check(cudaEventCreate(&event), "event");
  return {event, &cudaEventDestroy};
}

}  // namespace

DeviceBlock::DeviceBlock(Stream& stream, std::size_t bytes) : bytes_(bytes) {
  void* data = nullptr;
  stream.check(cudaMalloc(&data, bytes), "memory of a measurement");
  if (data != nullptr) data_ = {static_cast<std::byte*>(data), [](std::byte* block) { cudaFree(block); }};
}

double median_ms(Stream& stream, int repeats, const std::function<void()>& body) {
  const Event begin = make_event(stream), end = make_event(stream);
  std::vector<float> times;
  for (int i = 0; i <= repeats && stream.is_sound(); ++i) {
    stream.check(cudaEventRecord(begin.get(), stream.handle()), "event");
    body();
    stream.check(cudaEventRecord(end.get(), stream.handle()), "event");
    stream.check(cudaEventSynchronize(end.get()), "timed work");
    float ms = 0;
    stream.check(cudaEventElapsedTime(&ms, begin.get(), end.get()), "event");
    if (i > 0) times.push_back(ms);
  }
  if (times.empty() || !stream.is_sound()) return 0;
  const auto middle = times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2);
  std::nth_element(times.begin(), middle, times.end());
  return *middle;
}

double replay_ms(Stream& stream, int repeats, const std::function<void()>& body) {
  stream.check(cudaStreamBeginCapture(stream.handle(), cudaStreamCaptureModeRelaxed), "capture");
  body();
  cudaGraph_t captured = nullptr;
  stream.check(cudaStreamEndCapture(stream.handle(), &captured), "capture");
  const std::unique_ptr<CUgraph_st, decltype(&cudaGraphDestroy)> graph(captured, &cudaGraphDestroy);
  if (!stream.is_sound()) return 0;
  cudaGraphExec_t made = nullptr;
  stream.check(cudaGraphInstantiate(&made, graph.get(), 0), "graph");
  const std::unique_ptr<CUgraphExec_st, decltype(&cudaGraphExecDestroy)> ready(made, &cudaGraphExecDestroy);
  if (!stream.is_sound()) return 0;
  return median_ms(stream, repeats, [&] { stream.check(cudaGraphLaunch(ready.get(), stream.handle()), "replay"); });
}

}  // namespace tandem::gpu::cuda::bench
