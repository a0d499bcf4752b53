// One rank of an engine that writes one text after the other, greedily. No test macros: ranks run it on threads of
// their own.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "gpu/engine.hpp"
#include "tests/build_paths.hpp"
#include "tests/cuda/device_fixture.hpp"

namespace tandem::gpu::test {

// How a text is written; the text must not depend on chunk and drafts.
struct Writing {
  std::uint32_t chunk = 64;
  std::uint32_t drafts = 0;
  std::uint32_t generate = 24;
};

using Text = std::vector<TokenId>;

inline EngineOptions writer_options(const std::string& model, const std::string& backend) {
  EngineOptions options;
  options.model = source_folder() / model;
  options.backend = backend;
  options.max_positions = 1024;
  options.kv_tokens = 4096;
  options.lanes_max = 2;
  options.chunk_rows_max = 256;
  options.threads = 8;
  return options;
}

class TextWriter {
 public:
  explicit TextWriter(std::unique_ptr<Engine> engine) : engine_(std::move(engine)) {}

  Result<Text> write(const Text& prompt, const Writing& how) {
    StepPlan plan = opening(prompt, how);
    Text text;
    for (std::uint32_t fed = 0; fed < prompt.size(); fed += how.chunk) {
      PrefillWork work;
      work.id = id_;
      work.start = fed;
      const auto end = std::min<std::size_t>(fed + how.chunk, prompt.size());
      work.tokens.assign(prompt.begin() + fed, prompt.begin() + static_cast<std::ptrdiff_t>(end));
      work.sample = end == prompt.size();
      work.next_drafts = how.drafts;
      plan.prefill.push_back(work);
      if (auto ok = step(std::exchange(plan, {}), text); !ok) return ok.error();
    }
    while (text.size() < how.generate) {
      plan.decode.push_back({id_, how.drafts, how.drafts});
      if (auto ok = step(std::exchange(plan, {}), text); !ok) return ok.error();
    }
    plan.close.push_back(id_);
    if (auto ok = step(std::move(plan), text); !ok) return ok.error();
    text.resize(how.generate);
    return text;
  }

 private:
  StepPlan opening(const Text& prompt, const Writing& how) {
    SequenceOpen open;
    open.id = ++id_;
    open.sampling.temperature = 0;
    open.prompt_tokens = static_cast<std::uint32_t>(prompt.size());
    open.max_tokens_total = open.prompt_tokens + how.generate + 8;
    StepPlan plan;
    plan.open.push_back(open);
    return plan;
  }

  Result<void> step(StepPlan plan, Text& text) {
    plan.step = ++step_;
    const auto result = engine_->step(plan);
    if (!result) return result.error();
    for (const LaneResult& lane : result->lanes) {
      if (!lane.error.empty()) return Error{ErrorCode::internal, "lane", lane.error, "no error"};
      for (const SampledToken& token : lane.emitted) text.push_back(token.id);
    }
    return {};
  }

  std::unique_ptr<Engine> engine_;
  SequenceId id_ = 0;
  std::uint64_t step_ = 0;
};

inline Text random_prompt(std::uint32_t seed, std::size_t length, TokenId vocabulary) {
  Random random(seed);
  Text prompt;
  while (prompt.size() < length) prompt.push_back(static_cast<TokenId>(random.below(vocabulary - 16)) + 3);
  return prompt;
}

}  // namespace tandem::gpu::test
