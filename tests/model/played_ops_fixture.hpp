// PlayedOps: the operations of another backend behind the habits of a device. Its memory is not the host's, and what
// run_as_one and prepare_as_one are given is walked first, without running anything, and played afterwards.
//
// A device keeps what it was told when a step was walked; so does this: lists of the host are copied when an operation
// is issued, and what is played can differ from its walk by the contents of its late lists alone. Whoever prepares
// steps can therefore be tested without a device, decisions and bits.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "gpu/ops.hpp"

namespace tandem::gpu::test {

struct Played {
  int wholes = 0;           // bodies of run_as_one that were played
  int prepared = 0;         // steps that were made ready
  int prepared_starts = 0;  // of those: started in their turn
};

class PlayedOps final : public Ops {
 public:
  explicit PlayedOps(std::unique_ptr<Ops> plain);
  ~PlayedOps() override;

  const Played& played() const noexcept { return played_; }
  // From now on nothing is made ready, or all is again.
  void refuse(bool refuses) noexcept { refuses_ = refuses; }

  Memory& memory() noexcept override;
  Result<void> wait() override;
  Result<void> run_as_one(const std::function<Result<void>()>& body) override;
  bool prepare_as_one(const std::function<Result<void>()>& body, ByteLists late) override;
  bool run_prepared(ByteLists contents) override;

  void prepare(Linear& weight) override { plain_->prepare(weight); }
  void prepare(MoeWeights& weights) override { plain_->prepare(weights); }
  void move_rows(std::span<const RowMove> moves, std::int64_t cols) override;
  void clear(Tensor x) override;
  void scale(Tensor x, float factor, bool round) override;
  void sum_blocks(const Tensor& parts, bool round, Tensor sum) override;
  Result<void> draw_tokens(const Tensor& logits, std::span<const DrawRow> rows, std::span<TokenId> tokens) override;
  Result<void> best_of_sum(const Tensor& a, const Tensor& b, Tensor sums, std::span<BestColumn> best) override;
  void gather_rows(const Linear& table, std::span<const std::int32_t> ids, Tensor out) override;
  void linear(const Tensor& x, const Linear& weight, LinearMode mode, Tensor y) override;
  void partial_linear(const Tensor& x, const PartialLinear& weight, LinearMode mode, Tensor y) override;
  void rmsnorm(const Tensor& x, const DenseF32& w, double eps, bool round, Tensor y) override;
  void round_bf16(Tensor x) override;
  void mhc_mix(const Tensor& streams, const HyperConnection& hc, const ModelConfig& config, HcMix out) override;
  void mhc_collapse(const Tensor& streams, const Tensor& pre, bool round, Tensor u) override;
  void mhc_expand(Tensor streams, const Tensor& y, const HcMix& mix, bool round) override;
  void mean_streams(const Tensor& streams, int mult, bool round, Tensor out) override;
  void rope(Tensor x, int heads, std::span<const std::int64_t> positions, const RopeView& table, bool inverse,
            bool round) override;
  void quantise_x4(Tensor x) override;
  void write_window(const Tensor& x, std::span<const RecordRing> rings,
                    std::span<const std::int64_t> positions) override;
  void write_entries(const Tensor& x, std::span<const PagedRecords> caches,
                     std::span<const std::int32_t> entries) override;
  void pool_pair(const Tensor& ka, const Tensor& ga, const Tensor& kb, const Tensor& gb, bool round, Tensor z) override;
  void attention(const AttentionCall& call) override;
  void index_select(const IndexCall& call) override;
  void route(const Tensor& x, const Linear& gate, const float* bias, double temperature, double scaling,
             Routing out) override;
  void moe(const MoeCall& call) override;
  void engram_gate(Tensor streams, const Tensor& kv, const EngramWeights& weights, const std::uint8_t* keep,
                   const ModelConfig& config, bool round) override;

 private:
  class OwnMemory;
  struct LateList {
    std::span<const std::byte> place;
    std::vector<std::shared_ptr<std::vector<std::byte>>> copies;  // of it, by the operations that were issued
  };
  // Runs an operation, or keeps it if a body is being walked.
  void issue(std::function<void()> operation);
  // Copies a list that an operation reads.
  template <class T>
  std::function<std::span<const T>()> keep(std::span<const T> list);
  std::shared_ptr<std::vector<std::byte>> keep_bytes(std::span<const std::byte> list);
  // Walks `body`. Returns whether all of it can be played.
  bool walk(const std::function<Result<void>()>& body);
  void play();
  // Someone waits for what was issued: it cannot be played later.
  void end_wholeness() noexcept { is_whole_ = false; }

  std::unique_ptr<Ops> plain_;
  std::unique_ptr<OwnMemory> memory_;
  std::vector<std::function<void()>> operations_;  // of the last walk
  std::vector<LateList> late_;
  bool is_walking_ = false, is_whole_ = false, is_ready_ = false, refuses_ = false;
  Played played_;
};

}  // namespace tandem::gpu::test
