// The class only distributes: operations of one launch are here, the others in the *_calls.cpp files.
#include "gpu/cuda/cuda_ops.hpp"

#include <vector>

#include "gpu/comm/communicator.hpp"
#include "gpu/cuda/calls.hpp"
#include "gpu/cuda/context.hpp"
#include "gpu/cuda/exl3_calls.hpp"
#include "gpu/cuda/mhc_kernels.hpp"
#include "gpu/cuda/record_kernels.hpp"
#include "gpu/cuda/row_kernels.hpp"
#include "gpu/cuda/site_kernels.hpp"

namespace tandem::gpu {
namespace {

using cuda::CudaContext;

static_assert(sizeof(RowMove) == sizeof(cuda::Move), "copy lists are sent as they are");

class CudaOps final : public Ops {
 public:
  CudaOps(std::unique_ptr<cuda::Stream> stream, const CudaOptions& options)
      : context_(std::move(stream), options.staging_bytes) {}

  Memory& memory() noexcept override { return context_.memory; }
  Result<void> wait() override { return context_.stream.wait(); }
  Result<void> run_as_one(const std::function<Result<void>()>& body) override { return context_.graphs.run(body); }
  bool prepare_as_one(const std::function<Result<void>()>& body, ByteLists late) override {
    return context_.graphs.prepare(body, late);
  }
  bool run_prepared(ByteLists contents) override { return context_.graphs.start(contents); }
  void cut() override { context_.graphs.cut(); }
  void beside(Side side, const std::function<void()>& body) override {
    context_.stream.enter_side(static_cast<int>(side));
    body();
    context_.stream.leave_side();
  }
  void join(Side side) override { context_.stream.join(static_cast<int>(side)); }
  CudaUse use() const noexcept {
    const cuda::StepTimes& times = context_.graphs.times();
    return {context_.memory.allocations(),
            context_.memory.reserved_bytes(),
            context_.stream.operations(),
            context_.graphs.captured(),
            context_.graphs.started(),
            context_.graphs.nodes(),
            times.waits,
            times.walks,
            times.copies,
            times.starts,
            context_.graphs.prepared()};
  }

  // Only groups that reach devices; a failed exchange is the stream's first error.
  bool gather(Communicator& group, const Tensor& own, const Tensor& all) override {
    if (!group.reaches_devices()) return false;
    const auto exchange = [this](cudaStream_t stream, Communicator* ranks, const Tensor& from, const Tensor& to) {
      if (auto done = ranks->all_gather_on(stream, bytes_of(from), bytes_of(to)); !done)
        context_.stream.fail(done.error());
      return cudaSuccess;
    };
    run("all gather", exchange, &group, own, all);
    return true;
  }

  void observe(cuda::LaunchObserver* observer) noexcept { context_.stream.observe(observer); }
  void repeat(const char* what) noexcept { context_.stream.repeat(what); }

  // Of all formats but one the kernels read the file's own codes.
  void prepare(Linear& weight) override {
    if (weight.format == WeightFormat::exl3) cuda::pack_exl3(weight);
  }
  void prepare(MoeWeights& weights) override { cuda::prepare_experts(context_, weights); }

  void move_rows(std::span<const RowMove> moves, std::int64_t cols) override {
    if (moves.empty() || cols == 0) return;
    const auto* list = reinterpret_cast<const cuda::Move*>(context_.staging.send(moves));
    run("move rows", cuda::move_rows, list, static_cast<std::int64_t>(moves.size()), cols);
  }
  void clear(Tensor x) override {
    if (x.empty()) return;
    const auto clear = [](cudaStream_t s, void* data, std::size_t bytes) { return cudaMemsetAsync(data, 0, bytes, s); };
    run("clear", clear, x.data, bytes_of(x).size());
  }
  void scale(Tensor x, float factor, bool round) override {
    if (x.empty()) return;
    run("scale", cuda::scale, x, factor, round);
  }
  void sum_blocks(const Tensor& parts, bool round, Tensor sum) override {
    if (sum.empty()) return;
    run("sum blocks", cuda::sum_blocks, parts, round, sum);
  }
  Result<void> draw_tokens(const Tensor& logits, std::span<const DrawRow> rows, std::span<TokenId> tokens) override {
    return cuda::draw_tokens(context_, logits, rows, tokens);
  }
  Result<void> best_of_sum(const Tensor& a, const Tensor& b, Tensor sums, std::span<BestColumn> best) override;

  void gather_rows(const Linear& table, std::span<const std::int32_t> ids, Tensor out) override {
    if (ids.empty()) return;
    const std::int32_t* list = context_.staging.send(ids);
    const Tensor rows = out.slice_rows(0, static_cast<std::int64_t>(ids.size()));
    run("gather rows", cuda::gather_rows, table.codes.as<const std::uint16_t>(), list, rows);
  }
  void linear(const Tensor& x, const Linear& weight, LinearMode mode, Tensor y) override {
    cuda::linear(context_, x, weight, mode, y);
  }
  void linears(std::span<const LinearCall> calls) override { cuda::linears(context_, calls); }
  void partial_linear(const Tensor& x, const PartialLinear& weight, LinearMode mode, Tensor y) override {
    cuda::partial_linear(context_, x, weight, mode, y);
  }
  void rmsnorm(const Tensor& x, const DenseF32& w, double eps, bool round, Tensor y) override {
    if (x.empty()) return;
    const cuda::NormCall call{x, w.data(), static_cast<float>(eps), round, y};
    run("rmsnorm", cuda::rmsnorm, call);
  }
  void finish_rows(std::span<const RowFinish> all) override {
    if (!cuda::is_finish(all)) return Ops::finish_rows(all);
    cuda::finish_rows(context_, all);
  }
  void round_bf16(Tensor x) override {
    if (x.empty()) return;
    run("round", cuda::round_bf16, x);
  }

  void mhc_mix(const Tensor& streams, const HyperConnection& hc, const ModelConfig& config, HcMix out) override {
    cuda::mhc_mix(context_, streams, hc, config, out);
  }
  void mhc_collapse(const Tensor& streams, const Tensor& pre, bool round, Tensor u) override {
    if (u.empty()) return;
    run("mhc collapse", cuda::collapse, streams, pre, round, u);
  }
  void mhc_input(const Tensor& streams, const Tensor& pre, const RmsNorm& norm, Tensor u, Tensor y) override {
    if (y.empty()) return;
    const cuda::InputCall call{streams, pre, norm.weight->data(), static_cast<float>(norm.eps), norm.round, y};
    if (!cuda::is_joint_input(call)) return Ops::mhc_input(streams, pre, norm, u, y);
    run("mhc input", cuda::collapse_norm, call);
  }
  void mhc_expand(Tensor streams, const Tensor& y, const HcMix& mix, bool round) override {
    if (y.empty()) return;
    run("mhc expand", cuda::expand, cuda::ExpandCall{streams, y, mix.post, mix.comb, round});
  }
  void end_site(const SiteEnd& end) override {
    if (end.sum.empty()) return;
    run("site end", cuda::end_site, site_of(end));
  }
  void end_site(const SiteEnd& end, const SiteInput& next) override {
    if (end.sum.empty()) return;
    cuda::SiteCall call = site_of(end);
    call.pre = next.pre;
    call.norm = next.norm.weight->data();
    call.eps = static_cast<float>(next.norm.eps);
    call.input = next.y;
    if (next.norm.round != end.round || !cuda::is_joint_site(call)) return Ops::end_site(end, next);
    run("site end and input", cuda::end_site_with_input, call);
  }
  void mean_streams(const Tensor& streams, int mult, bool round, Tensor out) override {
    if (out.empty()) return;
    run("mean of streams", cuda::mean_streams, streams, mult, round, out);
  }

  void rope(Tensor x, int heads, std::span<const std::int64_t> positions, const RopeView& table, bool inverse,
            bool round) override {
    if (x.empty()) return;
    const std::int64_t* list = context_.staging.send(positions);
    const cuda::RotationCall call{x, heads, list, table.cos, table.sin, table.pairs, inverse, round};
    run("rope", cuda::rotate, call);
  }
  void quantise_x4(Tensor x) override {
    if (x.empty()) return;
    run("x4", cuda::fake_x4, x);
  }
  void write_window(const Tensor& x, std::span<const RecordRing> rings,
                    std::span<const std::int64_t> positions) override {
    write(
        x, [&](std::size_t row) { return rings[row].at(positions[row]); }, rings);
  }
  void write_entries(const Tensor& x, std::span<const PagedRecords> caches,
                     std::span<const std::int32_t> entries) override {
    write(
        x, [&](std::size_t row) { return caches[row].at(entries[row]); }, caches);
  }
  void pool_pair(const Tensor& ka, const Tensor& ga, const Tensor& kb, const Tensor& gb, bool round,
                 Tensor z) override {
    if (z.empty()) return;
    run("pool pair", cuda::pool_pair, cuda::PairCall{ka, ga, kb, gb, round, z});
  }

  void attention(const AttentionCall& call) override { cuda::attention(context_, call, nullptr); }
  void rotated_attention(const AttentionCall& call, const AttentionAngles& angles) override {
    cuda::attention(context_, call, &angles);
  }
  void index_select(const IndexCall& call) override { cuda::index_select(context_, call); }
  void route(const Tensor& x, const Linear& gate, const float* bias, double temperature, double scaling,
             Routing out) override {
    cuda::route(context_, {x, &gate, bias, temperature, scaling, out});
  }
  void moe(const MoeCall& call) override { cuda::moe(context_, call); }
  void begin_moe(const MoeCall& call) override { cuda::begin_moe(context_, call); }

  void engram_gate(Tensor streams, const Tensor& kv, const EngramWeights& weights, const std::uint8_t* keep,
                   const ModelConfig& config, bool round) override {
    if (streams.empty()) return;
    const std::uint8_t* flags =
        context_.staging.send(std::span<const std::uint8_t>(keep, static_cast<std::size_t>(streams.rows)));
    const cuda::GateCall call{streams,
                              kv,
                              weights.q_weight.data(),
                              weights.k_weight.data(),
                              flags,
                              config.hc_mult,
                              static_cast<float>(config.norm_eps),
                              round};
    run("engram gate", cuda::engram_gate, call);
  }

 private:
  static cuda::SiteCall site_of(const SiteEnd& end) {
    cuda::SiteCall call;
    call.streams = end.streams;
    call.parts = end.parts;
    call.post = end.mix.post;
    call.comb = end.mix.comb;
    call.round = end.round;
    call.sum = end.sum;
    return call;
  }
  template <class Launch, class... Arguments>
  void run(const char* what, const Launch& launch, const Arguments&... arguments) {
    context_.run(what, launch, arguments...);
  }

  // Writes row t of x as the record at place(t); the caches say in which format, the same for all rows.
  template <class Place, class Caches>
  void write(const Tensor& x, const Place& place, const Caches& caches) {
    if (x.empty()) return;
    std::vector<std::byte*> places;
    for (std::size_t row = 0; row < caches.size(); ++row) places.push_back(place(row));
    const cuda::WriteCall call{x, context_.staging.send(std::span<std::byte* const>(places)), caches.front().format};
    run("write records", cuda::write_records, call);
  }

  CudaContext context_;
};

Result<void> CudaOps::best_of_sum(const Tensor& a, const Tensor& b, Tensor sums, std::span<BestColumn> best) {
  if (sums.empty()) return {};
  const Workspace::Scope scope(context_.scratch());
  const Tensor found = context_.scratch().i32(2, sums.rows);
  const cuda::BestCall call{a, b, sums, found.row<float>(0), found.row<std::int32_t>(1)};
  run("best of sum", cuda::best_of_sum, call);
  const auto rows = static_cast<std::size_t>(sums.rows);
  std::vector<float> values(rows);
  std::vector<std::int32_t> columns(rows);
  if (auto ok = memory().download(call.values, std::as_writable_bytes(std::span(values))); !ok) return ok;
  if (auto ok = memory().download(call.columns, std::as_writable_bytes(std::span(columns))); !ok) return ok;
  for (std::size_t row = 0; row < rows; ++row) best[row] = {values[row], columns[row]};
  return {};
}

}  // namespace

int count_cuda_devices() noexcept {
  int devices = 0;
  return cudaGetDeviceCount(&devices) == cudaSuccess ? devices : 0;
}

Result<std::unique_ptr<Ops>> make_cuda_ops(const CudaOptions& options) {
  auto stream = cuda::Stream::open(options.device);
  if (!stream) return stream.error();
  std::unique_ptr<Ops> ops = std::make_unique<CudaOps>(std::move(*stream), options);
  if (auto ok = ops->wait(); !ok) return ok.error();
  return ops;
}

CudaUse use_of(const Ops& ops) {
  return static_cast<const CudaOps&>(ops).use();
}

void repeat_launches(Ops& ops, const char* what) {
  static_cast<CudaOps&>(ops).repeat(what);
}

void observe_launches(Ops& ops, cuda::LaunchObserver* observer) {
  static_cast<CudaOps&>(ops).observe(observer);
}

}  // namespace tandem::gpu
