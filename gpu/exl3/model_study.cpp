// One sequence at a time through one lane, in short chunks so that the draft network sees many anchors.
#include "gpu/exl3/model_study.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>

#include "gpu/exl3/dense_matrix.hpp"
#include "gpu/model/prepare_weights.hpp"

namespace tandem::gpu::exl3 {
namespace {

constexpr std::int32_t chunk_tokens = 16;

std::int64_t longest(const std::vector<std::vector<std::int32_t>>& sequences) {
  std::size_t length = 0;
  for (const auto& sequence : sequences) length = std::max(length, sequence.size());
  return static_cast<std::int64_t>(length);
}

// Row of logits -> log-probabilities.
void to_log_probabilities(const float* logits, std::int64_t n, float* out) {
  const float most = *std::max_element(logits, logits + n);
  double sum = 0;
  for (std::int64_t i = 0; i < n; ++i) sum += std::exp(double{logits[i]} - most);
  const auto shift = static_cast<float>(most + std::log(sum));
  for (std::int64_t i = 0; i < n; ++i) out[i] = logits[i] - shift;
}

// A copy of the matrix in F32 with Gaussian noise of `noise` times its mean square, seeded by name and shape.
Linear with_noise(const Linear& weight, double noise) {
  Linear noisy;
  noisy.name = weight.name;
  noisy.format = WeightFormat::f32;
  noisy.n = weight.n;
  noisy.k = weight.k;
  const auto count = static_cast<std::size_t>(weight.n * weight.k);
  noisy.codes = Buffer::host(count * sizeof(float));
  auto* values = noisy.codes.as<float>();
  decode_dense(weight, values);
  double square = 0;
  for (std::size_t i = 0; i < count; ++i) square += double{values[i]} * values[i];
  if (square == 0 || noise == 0) return noisy;
  std::seed_seq seed(weight.name.begin(), weight.name.end());
  std::mt19937_64 random(seed);
  std::normal_distribution<float> normal(0, static_cast<float>(std::sqrt(noise * square / static_cast<double>(count))));
  for (std::size_t i = 0; i < count; ++i) values[i] += normal(random);
  return noisy;
}

}  // namespace

Result<void> check_calibration(const TokenSequences& sequences, const ModelConfig& config) {
  if (sequences.empty()) {
    return Error{ErrorCode::invalid_argument, "calibration tokens", "none", "at least one sequence"};
  }
  for (const auto& sequence : sequences) {
    if (static_cast<std::int64_t>(sequence.size()) > config.max_positions || sequence.empty()) {
      return Error{ErrorCode::invalid_argument, "calibration tokens",
                   "a sequence of " + std::to_string(sequence.size()) + " tokens",
                   "1 to " + std::to_string(config.max_positions)};
    }
    for (const std::int32_t id : sequence) {
      if (id >= 0 && id < config.vocab_size) continue;
      return Error{ErrorCode::invalid_argument, "calibration tokens", "id " + std::to_string(id),
                   "0 to " + std::to_string(config.vocab_size - 1)};
    }
  }
  return {};
}

Result<std::unique_ptr<ModelStudy>> ModelStudy::open(const StudyOptions& options) {
  std::unique_ptr<ModelStudy> study(new ModelStudy(options));
  study->communicator_ = make_solo_communicator();
  ModelOptions load;
  load.folder = options.model;
  load.threads = options.threads;
  load.max_positions = longest(options.sequences) + 1;
  auto model = load_model(load, *study->communicator_, {}, options.stop);
  if (!model) return model.error();
  study->model_ = std::move(*model);
  CacheLimits limits;
  limits.max_positions = study->model_->max_positions;
  limits.kv_tokens = limits.max_positions + page_entries * 64;
  limits.chunk_rows_max = static_cast<int>(longest(options.sequences));
  auto layout = plan_caches(study->model_->config, study->model_->numerics, limits);
  if (!layout) return layout.error();
  study->pools_ = std::make_unique<CachePools>(std::move(*layout));
  study->forward_ = std::make_unique<ForwardPass>(*study->model_);
  study->drafts_ = std::make_unique<DraftNetwork>(*study->model_, study->forward_->workspace());
  return study;
}

Result<void> ModelStudy::measure_moments(MomentTable& table) {
  std::unique_ptr<Ops> inner = std::exchange(model_->ops, nullptr);
  model_->ops = make_calibration_ops(*inner, table);
  Result<void> done;
  for (std::size_t i = 0; i < options_.sequences.size() && done; ++i) done = run_sequence(options_.sequences[i]);
  model_->ops = std::move(inner);
  return done;
}

Result<void> ModelStudy::run_sequence(std::span<const std::int32_t> tokens) {
  auto sequence = pools_->open(model_->max_positions);
  if (!sequence) return sequence.error();
  const bool drafts = model_->config.dspark.stages > 0;
  for (std::size_t first = 0; first < tokens.size(); first += chunk_tokens) {
    if (options_.stop != nullptr && options_.stop->load(std::memory_order_relaxed)) {
      return Error{ErrorCode::cancelled, "calibration", "it was stopped", ""};
    }
    const auto count = std::min<std::size_t>(chunk_tokens, tokens.size() - first);
    if (auto ok = (*sequence)->append(tokens.subspan(first, count)); !ok) return ok;
    RowBatch rows;
    rows.add(**sequence, static_cast<std::int64_t>(first), static_cast<std::int32_t>(count));
    ForwardOptions options;
    options.taps = drafts;
    const auto result = forward_->run(rows, options);
    if (!result) return result.error();
    std::vector<std::int32_t> all(count);
    std::iota(all.begin(), all.end(), 0);
    const auto logits = forward_->logits(*result, all);
    if (!logits) return logits.error();
    if (!drafts || first + count >= tokens.size()) continue;
    if (auto ok = drafts_->insert(result->rows, result->taps); !ok) return ok;
    const DraftLane lane{sequence->get(), tokens[first + count], model_->config.dspark.block_size};
    if (auto proposed = drafts_->propose({&lane, 1}); !proposed) return proposed.error();
  }
  return {};
}

Result<std::vector<float>> ModelStudy::log_probabilities() {
  std::vector<float> values;
  std::size_t tokens = 0;
  for (const auto& sequence : options_.sequences) {
    if (tokens >= options_.probe_tokens) break;
    if (auto ok = add_log_probabilities(sequence, values); !ok) return ok.error();
    tokens += sequence.size();
  }
  return values;
}

Result<void> ModelStudy::add_log_probabilities(std::span<const std::int32_t> tokens, std::vector<float>& values) {
  auto sequence = pools_->open(model_->max_positions);
  if (!sequence) return sequence.error();
  if (auto ok = (*sequence)->append(tokens); !ok) return ok.error();
  RowBatch rows;
  rows.add(**sequence, 0, static_cast<std::int32_t>(tokens.size()));
  const auto result = forward_->run(rows, {});
  if (!result) return result.error();
  std::vector<std::int32_t> all(static_cast<std::size_t>(result->rows.rows()));
  std::iota(all.begin(), all.end(), 0);
  const auto logits = forward_->logits(*result, all);
  if (!logits) return logits.error();
  const std::size_t before = values.size();
  values.resize(before + static_cast<std::size_t>(logits->rows * logits->cols));
  for (std::int64_t r = 0; r < logits->rows; ++r) {
    to_log_probabilities(logits->row<float>(r), logits->cols, values.data() + before + r * logits->cols);
  }
  return {};
}

void ModelStudy::disturb(std::span<const std::string> modules, double noise,
                         std::vector<std::pair<Linear*, Linear>>& saved) {
  for_each_linear(model_->weights, [&](Linear& weight) {
    if (std::find(modules.begin(), modules.end(), weight.name) == modules.end()) return;
    saved.emplace_back(&weight, weight);
    weight = with_noise(weight, noise);
    model_->ops->prepare(weight);
  });
}

Result<double> ModelStudy::divergence(std::span<const std::string> modules, double noise) {
  if (reference_.empty()) {
    auto reference = log_probabilities();
    if (!reference) return reference.error();
    reference_ = std::move(*reference);
  }
  std::vector<std::pair<Linear*, Linear>> saved;
  disturb(modules, noise, saved);
  const auto disturbed = log_probabilities();
  for (auto& [weight, original] : saved) *weight = std::move(original);
  if (!disturbed) return disturbed.error();
  double sum = 0;
  for (std::size_t i = 0; i < reference_.size(); ++i) {
    sum += std::exp(double{reference_[i]}) * (double{reference_[i]} - (*disturbed)[i]);
  }
  const double rows = static_cast<double>(reference_.size()) / static_cast<double>(config().vocab_size);
  return std::max(0.0, sum / rows);
}

}  // namespace tandem::gpu::exl3
