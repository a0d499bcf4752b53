// The golden set of the tiny model and a rig that runs the forward pass against it.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "gpu/model/dspark.hpp"
#include "gpu/model/forward.hpp"
#include "gpu/state/cache_pools.hpp"

namespace tandem::gpu::test {

// A tensor of a golden file: floats (bf16 and f32 alike) or integers (i32, u8).
struct Golden {
  std::vector<std::int64_t> shape;
  std::vector<float> values;
  std::vector<std::int32_t> integers;
  std::int64_t rows() const { return shape.front(); }
  std::int64_t cols() const { return static_cast<std::int64_t>(values.size() + integers.size()) / shape.front(); }
};

// Returns tensor `name` of `file`.safetensors of golden_model_folder(); fails the test if it is not there.
Golden golden(const std::string& file, const std::string& name);
bool has_golden(const std::string& file, const std::string& name);
// Returns the token ids of a recorded prompt, e.g. "p97", or "continuation".
std::vector<std::int32_t> tokens_of(const std::string& name);

// |a - b| / |b| over all values.
double relative_l2(std::span<const float> a, std::span<const float> b);
// Mean over rows of KL(softmax(b) || softmax(a)); share of rows with the same largest value.
double mean_kl(std::span<const float> a, std::span<const float> b, std::int64_t cols);
double same_top1(std::span<const float> a, std::span<const float> b, std::int64_t cols);

// Values that a probe was shown, by name.
class Recorder final : public Probe {
 public:
  void record(const std::string& name, const Tensor& value, const std::vector<std::int64_t>& shape) override;
  std::map<std::string, Golden> seen;
};

using Logits = std::vector<float>;  // [rows, vocab]

// One rank of the tiny model with its caches.
class Rig {
 public:
  // Loads the golden checkpoint.
  Rig(const std::string& numerics, Communicator& communicator, int chunk_rows_max = 701);
  static std::unique_ptr<Rig> solo(const std::string& numerics, int chunk_rows_max = 701);

  const ModelConfig& config() const { return model->config; }
  std::unique_ptr<SequenceState> open(std::int64_t max_tokens = 1024);
  // Feeds tokens as one step and returns the logits of all their rows.
  Logits feed(SequenceState& sequence, std::span<const std::int32_t> tokens, Probe* probe = nullptr);
  // Feeds tokens in steps of `chunk` rows.
  Logits prefill(SequenceState& sequence, std::span<const std::int32_t> tokens, std::size_t chunk);
  // Inserts the draft context of the newest `rows` rows of the last step.
  void insert_context(SequenceState& sequence, std::int32_t rows, Probe* probe = nullptr);

  std::unique_ptr<Model> model;
  std::unique_ptr<CachePools> pools;
  std::unique_ptr<ForwardPass> forward;
  std::unique_ptr<DraftNetwork> drafts;
  ForwardResult last;

 private:
  std::unique_ptr<Communicator> owned_;
};

// Returns a shared one-rank rig; sequences of one test must be closed before the next uses it.
Rig& shared_rig(const std::string& numerics);

// Runs `body` on every rank of a model split over `ranks` threads; returns what rank 0 returned after checking that all
// ranks agree.
Logits on_ranks(int ranks, const std::string& numerics, const std::function<Logits(Rig&)>& body);

}  // namespace tandem::gpu::test
