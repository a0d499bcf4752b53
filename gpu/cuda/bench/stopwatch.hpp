// Stopwatch: the time of every operation by itself, each behind a short delay that hides its launch.
#pragma once

#include <iosfwd>
#include <memory>
#include <string>
#include <vector>

#include "gpu/cuda/stream.hpp"

namespace tandem::gpu::cuda::bench {

class Stopwatch final : public LaunchObserver {
 public:
  void before(const char* what, cudaStream_t stream) override;
  void after(const char* what, cudaStream_t stream) override;

  // The names of the operations seen since the last write, each once.
  std::vector<const char*> names() const;

  // Writes calls and time of each kind of operation, the longest first, and starts over. The device must be idle. About
  // 2 us of each call are the two events around it.
  void write(std::ostream& out, bool json);

 private:
  using Event = std::unique_ptr<CUevent_st, decltype(&cudaEventDestroy)>;
  void record(cudaStream_t stream);

  std::vector<Event> events_;  // two an operation
  std::vector<const char*> names_;
};

}  // namespace tandem::gpu::cuda::bench
