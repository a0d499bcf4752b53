// BareRanks: all ranks of a model as threads of this process, without actors and HTTP around them. What `tandem bench`
// compares everything else with.
#pragma once

#include <memory>
#include <vector>

#include "gpu/engine.hpp"

namespace tandem::ops {

class BareRanks {
 public:
  // Loads every rank on its own thread. Errors: as gpu::load_engine.
  static Result<BareRanks> load(const gpu::EngineOptions& options, int ranks);
  BareRanks(BareRanks&&) noexcept;
  BareRanks& operator=(BareRanks&&) noexcept;
  ~BareRanks();

  const gpu::EngineInfo& info() const noexcept;
  // Runs one plan on every rank. `seconds` of the result is the shortest time that a rank spent in its step, which is
  // what actors::StepTrace calls compute.
  Result<gpu::StepResult> step(const gpu::StepPlan& plan);

 private:
  struct Parts;
  explicit BareRanks(std::unique_ptr<Parts> parts);
  std::unique_ptr<Parts> parts_;
};

}  // namespace tandem::ops
