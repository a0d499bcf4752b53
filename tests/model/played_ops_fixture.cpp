// Walking and playing; every operation is kept with copies of the lists that it was given.
#include "tests/model/played_ops_fixture.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

namespace tandem::gpu::test {

// Host memory that says it is not.
class PlayedOps::OwnMemory final : public Memory {
 public:
  explicit OwnMemory(PlayedOps& ops) : ops_(ops) {}
  bool is_host() const noexcept override { return false; }
  Buffer allocate(std::size_t bytes) override { return Buffer::host(bytes); }
  void place(Buffer&) override {}
  void upload(std::span<const std::byte> from, void* to) override {
    ops_.issue([list = ops_.keep(from), to] {
      if (!list().empty()) std::memcpy(to, list().data(), list().size());
    });
  }
  Result<void> download(const void* from, std::span<std::byte> to) override {
    ops_.end_wholeness();
    if (!to.empty()) std::memcpy(to.data(), from, to.size());
    return {};
  }

 private:
  PlayedOps& ops_;
};

PlayedOps::PlayedOps(std::unique_ptr<Ops> plain)
    : plain_(std::move(plain)), memory_(std::make_unique<OwnMemory>(*this)) {}

PlayedOps::~PlayedOps() = default;

Memory& PlayedOps::memory() noexcept {
  return *memory_;
}

Result<void> PlayedOps::wait() {
  end_wholeness();
  return plain_->wait();
}

Result<void> PlayedOps::run_as_one(const std::function<Result<void>()>& body) {
  is_ready_ = false;
  late_.clear();
  if (!walk(body)) return body();
  ++played_.wholes;
  play();
  return {};
}

bool PlayedOps::prepare_as_one(const std::function<Result<void>()>& body, ByteLists late) {
  is_ready_ = false;
  late_.clear();
  if (refuses_) return false;
  for (const std::span<const std::byte> place : late) late_.push_back({place, {}});
  const bool is_whole = walk(body);
  const auto is_told = [](const LateList& list) { return list.copies.size() == 1; };
  is_ready_ = is_whole && std::all_of(late_.begin(), late_.end(), is_told);
  if (is_ready_) ++played_.prepared;
  return is_ready_;
}

bool PlayedOps::run_prepared(ByteLists contents) {
  if (!is_ready_ || contents.size() != late_.size()) return false;
  for (std::size_t i = 0; i < contents.size(); ++i) {
    if (contents[i].size() != late_[i].place.size()) return false;
  }
  for (std::size_t i = 0; i < contents.size(); ++i) {
    late_[i].copies.front()->assign(contents[i].begin(), contents[i].end());
  }
  is_ready_ = false;
  ++played_.prepared_starts;
  play();
  return true;
}

bool PlayedOps::walk(const std::function<Result<void>()>& body) {
  operations_.clear();
  is_walking_ = true;
  is_whole_ = true;
  const auto walked = body();
  is_walking_ = false;
  return walked.has_value() && is_whole_;
}

void PlayedOps::play() {
  for (const auto& operation : operations_) operation();
}

void PlayedOps::issue(std::function<void()> operation) {
  if (!is_walking_) return operation();
  operations_.push_back(std::move(operation));
}

template <class T>
std::function<std::span<const T>()> PlayedOps::keep(std::span<const T> list) {
  return [kept = keep_bytes(std::as_bytes(list)), count = list.size()]() -> std::span<const T> {
    return {reinterpret_cast<const T*>(kept->data()), count};
  };
}

std::shared_ptr<std::vector<std::byte>> PlayedOps::keep_bytes(std::span<const std::byte> list) {
  auto kept = std::make_shared<std::vector<std::byte>>(list.begin(), list.end());
  if (!is_walking_) return kept;
  for (LateList& late : late_) {
    if (late.place.data() == list.data() && late.place.size() == list.size()) late.copies.push_back(kept);
  }
  return kept;
}

void PlayedOps::move_rows(std::span<const RowMove> moves, std::int64_t cols) {
  issue([this, kept = keep(moves), cols] { plain_->move_rows(kept(), cols); });
}

void PlayedOps::clear(Tensor x) {
  issue([this, x] { plain_->clear(x); });
}

void PlayedOps::scale(Tensor x, float factor, bool round) {
  issue([this, x, factor, round] { plain_->scale(x, factor, round); });
}

void PlayedOps::sum_blocks(const Tensor& parts, bool round, Tensor sum) {
  issue([this, parts, round, sum] { plain_->sum_blocks(parts, round, sum); });
}

Result<void> PlayedOps::draw_tokens(const Tensor& logits, std::span<const DrawRow> rows, std::span<TokenId> tokens) {
  end_wholeness();
  return plain_->draw_tokens(logits, rows, tokens);
}

Result<void> PlayedOps::best_of_sum(const Tensor& a, const Tensor& b, Tensor sums, std::span<BestColumn> best) {
  end_wholeness();
  return plain_->best_of_sum(a, b, sums, best);
}

void PlayedOps::gather_rows(const Linear& table, std::span<const std::int32_t> ids, Tensor out) {
  issue([this, &table, kept = keep(ids), out] { plain_->gather_rows(table, kept(), out); });
}

void PlayedOps::linear(const Tensor& x, const Linear& weight, LinearMode mode, Tensor y) {
  issue([this, x, &weight, mode, y] { plain_->linear(x, weight, mode, y); });
}

void PlayedOps::partial_linear(const Tensor& x, const PartialLinear& weight, LinearMode mode, Tensor y) {
  issue([this, x, &weight, mode, y] { plain_->partial_linear(x, weight, mode, y); });
}

void PlayedOps::rmsnorm(const Tensor& x, const DenseF32& w, double eps, bool round, Tensor y) {
  issue([this, x, &w, eps, round, y] { plain_->rmsnorm(x, w, eps, round, y); });
}

void PlayedOps::round_bf16(Tensor x) {
  issue([this, x] { plain_->round_bf16(x); });
}

void PlayedOps::mhc_mix(const Tensor& streams, const HyperConnection& hc, const ModelConfig& config, HcMix out) {
  issue([this, streams, &hc, &config, out] { plain_->mhc_mix(streams, hc, config, out); });
}

void PlayedOps::mhc_collapse(const Tensor& streams, const Tensor& pre, bool round, Tensor u) {
  issue([this, streams, pre, round, u] { plain_->mhc_collapse(streams, pre, round, u); });
}

void PlayedOps::mhc_expand(Tensor streams, const Tensor& y, const HcMix& mix, bool round) {
  issue([this, streams, y, mix, round] { plain_->mhc_expand(streams, y, mix, round); });
}

void PlayedOps::mean_streams(const Tensor& streams, int mult, bool round, Tensor out) {
  issue([this, streams, mult, round, out] { plain_->mean_streams(streams, mult, round, out); });
}

void PlayedOps::rope(Tensor x, int heads, std::span<const std::int64_t> positions, const RopeView& table, bool inverse,
                     bool round) {
  issue([this, x, heads, kept = keep(positions), table, inverse, round] {
    plain_->rope(x, heads, kept(), table, inverse, round);
  });
}

void PlayedOps::quantise_x4(Tensor x) {
  issue([this, x] { plain_->quantise_x4(x); });
}

void PlayedOps::write_window(const Tensor& x, std::span<const RecordRing> rings,
                             std::span<const std::int64_t> positions) {
  issue([this, x, kept = keep(rings), at = keep(positions)] { plain_->write_window(x, kept(), at()); });
}

void PlayedOps::write_entries(const Tensor& x, std::span<const PagedRecords> caches,
                              std::span<const std::int32_t> entries) {
  issue([this, x, kept = keep(caches), at = keep(entries)] { plain_->write_entries(x, kept(), at()); });
}

void PlayedOps::pool_pair(const Tensor& ka, const Tensor& ga, const Tensor& kb, const Tensor& gb, bool round,
                          Tensor z) {
  issue([this, ka, ga, kb, gb, round, z] { plain_->pool_pair(ka, ga, kb, gb, round, z); });
}

void PlayedOps::attention(const AttentionCall& call) {
  issue([this, call, kept = keep(call.rows)] {
    AttentionCall own = call;
    own.rows = kept();
    plain_->attention(own);
  });
}

void PlayedOps::index_select(const IndexCall& call) {
  issue([this, call, kept = keep(call.rows)] {
    IndexCall own = call;
    own.rows = kept();
    plain_->index_select(own);
  });
}

void PlayedOps::route(const Tensor& x, const Linear& gate, const float* bias, double temperature, double scaling,
                      Routing out) {
  issue([this, x, &gate, bias, temperature, scaling, out] { plain_->route(x, gate, bias, temperature, scaling, out); });
}

void PlayedOps::moe(const MoeCall& call) {
  issue([this, call] { plain_->moe(call); });
}

void PlayedOps::engram_gate(Tensor streams, const Tensor& kv, const EngramWeights& weights, const std::uint8_t* keep,
                            const ModelConfig& config, bool round) {
  const std::span<const std::uint8_t> rows(keep, static_cast<std::size_t>(streams.rows));
  issue([this, streams, kv, &weights, kept = this->keep(rows), &config, round] {
    plain_->engram_gate(streams, kv, weights, kept().data(), config, round);
  });
}

}  // namespace tandem::gpu::test
