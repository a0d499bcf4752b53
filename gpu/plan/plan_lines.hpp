// The lines of a plan, part by part. Each function appends what one part of a rank holds.
#pragma once

#include <vector>

#include "gpu/plan/memory_plan.hpp"
#include "gpu/state/cache_layout.hpp"

namespace tandem::gpu {

std::vector<PlanLine> weight_lines(const MeasuredWeights& measured);
void add_cache_lines(std::vector<PlanLine>& lines, const ModelConfig& config, const CacheLayout& layout,
                     const PlanRequest& request);
void add_step_lines(std::vector<PlanLine>& lines, const RehearsedStep& step, const PlanRequest& request);
void add_engram_lines(std::vector<PlanLine>& lines, const ModelConfig& config, const RehearsedStep& step,
                      const PlanRequest& request);
void add_process_lines(std::vector<PlanLine>& lines, const CacheLayout& layout, const PlanRequest& request);

}  // namespace tandem::gpu
