// ModelStudy: the model to be quantised, run over calibration tokens: what goes into its matrices, and how much the
// answers change when some of them are disturbed.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "gpu/comm/communicator.hpp"
#include "gpu/exl3/calibration_ops.hpp"
#include "gpu/model/dspark.hpp"
#include "gpu/model/forward.hpp"
#include "gpu/model/model.hpp"
#include "gpu/state/cache_pools.hpp"

namespace tandem::gpu::exl3 {

using TokenSequences = std::vector<std::vector<std::int32_t>>;

// Errors: invalid_argument (no sequence, one that is empty or longer than the model's limit, ids beyond the
// vocabulary).
Result<void> check_calibration(const TokenSequences& sequences, const ModelConfig& config);

struct StudyOptions {
  std::filesystem::path model;
  int threads = 1;
  TokenSequences sequences;         // calibration tokens that check_calibration accepts
  std::size_t probe_tokens = 1024;  // divergences are measured on the first sequences, about so many
  const std::atomic<bool>* stop = nullptr;
};

class ModelStudy {
 public:
  // Loads the model on one rank of the CPU backend. Errors: those of load_model.
  static Result<std::unique_ptr<ModelStudy>> open(const StudyOptions& options);

  // Runs all sequences, drafts included, and adds the inputs of the matrices that `table` has. Errors: cancelled, and
  // those of the forward pass.
  Result<void> measure_moments(MomentTable& table);

  // Mean divergence KL(p || p') in nats a position, p' with noise of relative squared size `noise` on every matrix
  // whose name is in `modules`. The noise is a function of the names, so the result can be had again.
  Result<double> divergence(std::span<const std::string> modules, double noise);

  const ModelConfig& config() const noexcept { return model_->config; }

 private:
  explicit ModelStudy(StudyOptions options) : options_(std::move(options)) {}

  // Log-probabilities [rows, vocab] of the first sequences, one behind the other.
  Result<std::vector<float>> log_probabilities();
  Result<void> add_log_probabilities(std::span<const std::int32_t> tokens, std::vector<float>& values);
  Result<void> run_sequence(std::span<const std::int32_t> tokens);
  void disturb(std::span<const std::string> modules, double noise, std::vector<std::pair<Linear*, Linear>>& saved);

  StudyOptions options_;
  std::unique_ptr<Communicator> communicator_;
  std::unique_ptr<Model> model_;
  std::unique_ptr<CachePools> pools_;
  std::unique_ptr<ForwardPass> forward_;
  std::unique_ptr<DraftNetwork> drafts_;
  std::vector<float> reference_;  // log-probabilities without noise
};

}  // namespace tandem::gpu::exl3
