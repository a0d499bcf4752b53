// One transformer block, (3)-(7): attention site and FFN site around the residual streams. Backbone layers and draft
// stages differ only in what their attention sees.
#include "gpu/model/blocks.hpp"
#include "gpu/model/probe_views.hpp"

namespace tandem::gpu {
namespace {

void show_coefficients(const StepContext& step, const char* pre, const char* post, const char* comb, const HcMix& mix) {
  const std::int64_t rows = mix.pre.rows;
  const std::int64_t mult = mix.pre.cols;
  step.show(pre, mix.pre, {rows, mult});
  step.show(post, mix.post, {rows, mult});
  step.show(comb, mix.comb, {rows, mult, mult});
}

// What a site leaves behind: streams that took its result, and the input of the next one if that is known.
struct SiteResult {
  Tensor streams;
  const HcMix& mix;
  const DenseF32* next_norm;  // null: the next input is made elsewhere
  Tensor next_input;
};

// (6), (7) and the (4) that follows, whose collapse takes this site's mix.
void end_site(const StepContext& step, const char* name, const Tensor& parts, const SiteResult& result) {
  const std::int64_t rows = result.streams.rows, hidden = step.config().hidden;
  const Workspace::Scope scope(step.workspace);
  const Tensor sum = step.workspace.f32(rows, hidden);
  const SiteEnd end{result.streams, parts, result.mix, step.rounds(), sum};
  if (result.next_norm == nullptr) {
    step.ops().end_site(end);
  } else {
    const RmsNorm norm{result.next_norm, step.config().norm_eps, step.rounds()};
    step.ops().end_site(end, {result.mix.pre, norm, step.workspace.f32(rows, hidden), result.next_input});
  }
  step.show(name, sum, {rows, hidden});
}

}  // namespace

Result<void> run_block(StepContext& step, const BlockSite& site, Residual& residual, const AttentionFn& attention) {
  const Workspace::Scope scope(step.workspace);
  const ModelConfig& config = step.config();
  const BlockWeights& weights = site.weights;
  const std::int64_t rows = residual.streams.rows;
  step.show("stream_in", residual.streams, {rows, config.hc_mult, config.hidden});
  step.show("pre_in", residual.pre, {rows, config.hc_mult});

  // Coefficients are needed by the expansion at the end of their site only.
  Ops& ops = step.ops();
  HcMix attention_mix;
  const Tensor own_pre = step.workspace.f32(rows, config.hc_mult);
  ops.beside(Ops::Side::residual,
             [&] { attention_mix = mhc_coefficients(step, residual.streams, weights.hc_attn, own_pre); });
  show_mix(step, "hc_attn_mix", residual.streams, weights.hc_attn);
  show_coefficients(step, "hc_attn_pre", "hc_attn_post", "hc_attn_comb", attention_mix);
  const Tensor attention_in =
      residual.has_input ? residual.input : mhc_input(step, residual.streams, residual.pre, weights.attn_norm);
  step.show("attn_in", attention_in, {rows, config.hidden});
  const auto attention_out = attention(attention_in);
  if (!attention_out) return attention_out.error();
  ops.join(Ops::Side::residual);
  const Tensor ffn_in = step.workspace.f32(rows, config.hidden);
  end_site(step, "attn_out", *attention_out, {residual.streams, attention_mix, &weights.ffn_norm, ffn_in});

  // What this site makes for the next one takes the place of what the attention site has used up.
  HcMix ffn_mix;
  ops.beside(Ops::Side::residual,
             [&] { ffn_mix = mhc_coefficients(step, residual.streams, weights.hc_ffn, residual.pre); });
  show_mix(step, "hc_ffn_mix", residual.streams, weights.hc_ffn);
  show_coefficients(step, "hc_ffn_pre", "hc_ffn_post", "hc_ffn_comb", ffn_mix);
  step.show("ffn_in", ffn_in, {rows, config.hidden});
  const auto ffn_out = mixture_of_experts(step, weights.moe, site.moe, ffn_in);
  if (!ffn_out) return ffn_out.error();
  ops.join(Ops::Side::residual);
  residual.has_input = site.next != nullptr && !residual.input.empty();
  const DenseF32* next_norm = residual.has_input ? &site.next->attn_norm : nullptr;
  end_site(step, "ffn_out", *ffn_out, {residual.streams, ffn_mix, next_norm, residual.input});

  step.show("stream_out", residual.streams, {rows, config.hc_mult, config.hidden});
  step.show("pre_out", residual.pre, {rows, config.hc_mult});
  return {};
}

}  // namespace tandem::gpu
