// Runs a trace of the golden checkpoint and reads its file.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "gpu/checkpoint/safetensors.hpp"
#include "gpu/trace.hpp"

namespace tandem::gpu::test {

// A folder that disappears with the test.
class TraceFolder {
 public:
  TraceFolder();
  ~TraceFolder() { std::filesystem::remove_all(path); }
  TraceFolder(const TraceFolder&) = delete;
  TraceFolder& operator=(const TraceFolder&) = delete;
  std::filesystem::path path;
};

// A trace of p41 into `folder`.
TraceOptions trace_of_p41(const TraceFolder& folder);

// Runs it; fails the test if there is no file.
SafetensorsFile run_and_open(const TraceOptions& options);
std::vector<float> floats_of(const SafetensorsFile& file, const std::string& name);

}  // namespace tandem::gpu::test
