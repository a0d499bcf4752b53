"""The DSpark draft network: a block of five tokens from target features of committed positions.

Works on a list of anchors: row n drafts what follows position `at[n]` (the newest committed one) of batch row `row[n]`;
the anchor token stands at at[n] + 1. Owns context KV, the block forward, Markov bias and confidence.
"""
import functools

import torch

from . import attention, experts, hyper
from .network import EXPERTS, OUTPUT, QUERY, final_hidden, part, site, tokenwise
from .numerics import rms_norm, rotate


CONTEXT = ("wkv", "kv_norm")


def features(config, num, taps, w):
    """main_x [B, T, D] from concatenated taps."""
    return num.r(rms_norm(num.linear_q(taps, w["proj"]), w["norm"], config.rms_norm_eps))


def context(config, num, main_x, rope, w):
    """Context KV of one stage [B, T, d], quantised like the target's window."""
    kv = num.r(rms_norm(num.linear_q(main_x, w["wkv"]), w["kv_norm"], config.rms_norm_eps))
    return num.w8(num.r(rotate(kv, rope)))


def attend(config, num, q, own, near, mask, w, rope):
    """q [N, B, H, d] over context near [N, window, d] (mask [N, window]) and the block's own KV [N, B, d]."""
    n, b, h, d = q.shape
    rows = q.reshape(n, b * h, d)
    far_scores = torch.matmul(rows, near.transpose(-1, -2)).float() * d**-0.5
    far_scores = far_scores.masked_fill(~mask[:, None, :], float("-inf"))
    own_scores = torch.matmul(rows, own.transpose(-1, -2)).float() * d**-0.5
    sink = w["sink"].repeat(b)[None, :]
    top = torch.maximum(far_scores.amax(-1), own_scores.amax(-1)).detach()[..., None]
    e_far, e_own = torch.exp(far_scores - top), torch.exp(own_scores - top)
    total = e_far.sum(-1, keepdim=True) + e_own.sum(-1, keepdim=True) + torch.exp((sink[..., None] - top).clamp(max=80.0))
    o = torch.matmul(num.r(e_far), near).float() + torch.matmul(num.r(e_own), own).float()
    return attention.grouped_output(config, num, num.r(o / total).reshape(n, b, h, d), w, rope)


class Draft:
    """The three stages, sharing the compiled pieces of a backbone network."""

    def __init__(self, config, num, wrap=lambda function: function):
        self.config, self.num = config, num
        bind = lambda function: functools.partial(wrap(function), config, num)
        flat = lambda function: tokenwise(bind(function))
        self.site_in, self.expand, self.moe = flat(hyper.site_in), flat(hyper.expand), flat(experts.moe)
        self.queries, self.attend, self.hidden = flat(attention.queries_and_window), bind(attend), flat(final_hidden)
        self.features, self.context = flat(features), flat(context)

    def __call__(self, view, target, batch, taps, row, at, tables, anchors):
        """row, at, anchors [N] (anchor token ids) -> hidden before the norm [N, B, D], normalised [N, B, D], choices."""
        config, num = self.config, self.num
        block = config.dspark_block_size
        main_x = self.features(taps, {"proj": view.get("mtp/main_proj"), "norm": view.get("mtp/main_norm")})
        ids = torch.full((len(at), block), config.dspark_noise_token_id, dtype=torch.int64, device=at.device)
        ids[:, 0] = anchors
        pos = batch.pos[row, at][:, None] + 1 + torch.arange(block, device=at.device)
        rope = tables.plain[pos]
        gather, mask = self.window(batch, row, at)
        x = num.r(target.lookup("embed", ids))
        streams = x[..., None, :].expand(*x.shape[:-1], config.hc_mult, -1).contiguous()
        pre = torch.zeros(streams.shape[:-1], device=streams.device)
        pre[..., 0] = 1.0
        chosen = []
        for i in range(config.num_nextn_predict_layers):
            w = view.layer(i)
            kv = self.context(main_x, batch.plain, part(w, CONTEXT))
            near = kv[row[:, None], gather]
            streams, pre, picked = self.stage(w, streams, pre, near, mask, rope)
            chosen.append(picked)
        raw = hyper.collapse(num, streams, pre)
        return raw, self.hidden(streams, pre, {"norm": view.get("mtp/norm")}), chosen

    def window(self, batch, row, at):
        """Row indices [N, window] of committed positions P-window+1..P and which of them belong to the document."""
        gather = at[:, None] - torch.arange(self.config.sliding_window, device=at.device)
        inside = gather >= 0
        gather = gather.clamp(min=0)
        return gather, inside & (batch.seg[row[:, None], gather] == batch.seg[row, at][:, None])

    def stage(self, w, streams, pre, near, mask, rope):
        x, pre, post, mix = self.site_in(streams, pre, site(w, "attn"))
        q, _, own = self.queries(x, rope, part(w, QUERY))
        y = self.attend(q, own, near, mask, part(w, OUTPUT), rope)
        streams = self.expand(streams, y, post, mix)
        x, after, post, mix = self.site_in(streams, pre, site(w, "ffn"))
        y, chosen = self.moe(x, part(w, EXPERTS), self.config.dspark_num_experts_per_tok)
        return self.expand(streams, y, post, mix), after, chosen


def markov_bias(num, view, previous):
    """Logit bias [..., V] and Markov embedding [..., rank] given the previous token."""
    e = view.lookup("mtp/markov_embed", previous)
    return num.linear32(e, view.get("mtp/markov_head")), e


def confidence(num, view, raw, e):
    """Raw confidence logit [...] from the pre-norm hidden and the Markov embedding."""
    return num.linear32(torch.cat((raw.float(), e.float()), -1), view.get("mtp/confidence"))[..., 0]


def greedy_chain(num, view, raw, base_logits, anchors, depth):
    """Chained argmax drafts [N, depth] and their confidence logits [N, depth]."""
    tokens, sure, previous = [], [], anchors
    for i in range(depth):
        bias, e = markov_bias(num, view, previous)
        sure.append(confidence(num, view, raw[:, i], e))
        previous = (base_logits[:, i] + bias).argmax(-1)
        tokens.append(previous)
    return torch.stack(tokens, 1), torch.stack(sure, 1)
