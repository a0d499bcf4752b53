"""The backbone: 8 (or any number of) layers over four residual streams, with Engram, shared KV and the indexer.

Owns: the order of a layer and the state shared down the stack (compressed KV, index keys, choice, candidates).
Weights come from a `View` (parameters.py). `Network(config, num, wrap)` may wrap its pieces, e.g. with torch.compile.
"""
import functools

import torch

from . import attention, experts, hyper
from .numerics import rms_norm


def engram(config, num, streams, rows, w, keep=None):
    """Adds the gated n-gram value to each stream. rows [B, T, columns * head_dim]; returns streams and gates [.., C]."""
    c, d, eps = config.hc_mult, config.hidden_size, config.rms_norm_eps
    kv = num.linear_q(rows, w["engram_wkv"]).unflatten(-1, (c + 1, d)).float()
    keys, value = kv[..., :c, :], kv[..., c:, :]
    x = streams.float()
    scale = torch.rsqrt(x.square().mean(-1) + eps) * torch.rsqrt(keys.square().mean(-1) + eps) * d**-0.5
    z = (x * (w["engram_q"].float() * w["engram_k"].float()) * keys).sum(-1) * scale
    gate = torch.sigmoid(torch.sqrt(z.abs().clamp(min=1e-6)) * torch.where(z < 0, -1.0, 1.0))
    if keep is not None:
        gate = gate * keep[..., None]
    return num.r(x + gate[..., None] * value), gate


def final_hidden(config, num, streams, pre, w):
    """Collapse with the last carried `pre` and normalise: the input of the head."""
    return num.r(rms_norm(hyper.collapse(num, streams, pre), w["norm"], config.rms_norm_eps))


QUERY = ("wq_a", "q_norm", "wq_b", "wkv", "kv_norm")
OUTPUT = ("sink", "wo_a", "wo_b")
EXPERTS = ("gate", "gate_bias", "w1", "w3", "w2", "s1", "s3", "s2")
PAIRS = ("comp_wkv", "comp_wgate", "comp_norm")
EACH = ("comp_wkv", "comp_norm")
KEYS = ("ik", "ik_norm")
SCORES = ("iq_b", "iw")
ENGRAM = ("engram_wkv", "engram_q", "engram_k")


def part(w, keys):
    """The weights one piece needs, always the same keys, so that a compiled piece serves every layer."""
    return {key: w[key] for key in keys}


def site(w, name):
    """The mHC weights and the norm of one of a layer's two sites."""
    return {"fn": w[f"hc_{name}_fn"], "base": w[f"hc_{name}_base"], "scale": w[f"hc_{name}_scale"], "norm": w[f"{name}_norm"]}


def tokenwise(piece):
    """Runs a piece on [B*T, ...] instead of [B, T, ...], so that one compiled shape serves every batch layout."""
    def run(*args):
        lead = args[0].shape[:2]
        flat = piece(*(a.flatten(0, 1) if torch.is_tensor(a) else a for a in args))
        if torch.is_tensor(flat):
            return flat.unflatten(0, lead)
        return tuple(value.unflatten(0, lead) for value in flat)
    return run


class Network:
    """The forward pass in one numeric mode."""

    def __init__(self, config, num, wrap=lambda function: function):
        self.config, self.num = config, num
        bind = lambda function: functools.partial(wrap(function), config, num)
        flat = lambda function: tokenwise(bind(function))
        self.site_in, self.expand, self.moe = flat(hyper.site_in), flat(hyper.expand), flat(experts.moe)
        self.engram, self.hidden = flat(engram), flat(final_hidden)
        self.queries, self.attend = flat(attention.queries_and_window), bind(attention.attend)
        self.pairs, self.each = bind(attention.compress_pairs), bind(attention.compress_each)
        self.entries, self.keys = bind(attention.entries_of), bind(attention.index_keys)
        self.scores, self.index_loss = bind(attention.index_scores), bind(attention.index_loss)
        self.trace = None

    def note(self, layer, **values):
        """Hands intermediate values to a listener (tests of single sites)."""
        if self.trace is not None:
            self.trace(layer, values)

    def start(self, view, batch):
        embedded = self.num.r(view.lookup("embed", batch.ids))
        streams = embedded[..., None, :].expand(*embedded.shape[:-1], self.config.hc_mult, -1).contiguous()
        pre = torch.zeros(streams.shape[:-1], device=streams.device)
        pre[..., 0] = 1.0
        return streams, pre

    def __call__(self, view, batch, learn_index=False):
        """-> dict: hidden [B, T, D] after the final norm, taps [B, T, taps*D], chosen [layers][B, T, E], index losses."""
        config = self.config
        streams, pre = self.start(view, batch)
        state = {"losses": [], "learn": learn_index}
        taps, chosen = [], []
        for i in range(config.num_hidden_layers):
            w = view.layer(i)
            if i in config.engram_layer_ids:
                which = config.engram_layer_ids.index(i)
                rows = self.num.r(view.rows(which, batch.rows[:, :, which]).flatten(-2))
                streams = self.engram(streams, rows, part(w, ENGRAM))[0]
            if i in config.dspark_target_layer_ids:
                taps.append(self.num.r(streams.float().mean(-2)))
            self.note(i, stream_in=streams, pre_in=pre)
            streams, pre, picked = self.layer(i, w, batch, streams, pre, state)
            self.note(i, stream_out=streams, pre_out=pre)
            chosen.append(picked)
        hidden = self.hidden(streams, pre, {"norm": view.get("norm")})
        return {"hidden": hidden, "taps": torch.cat(taps, -1), "chosen": chosen, "index_losses": state["losses"]}

    def layer(self, i, w, batch, streams, pre, state):
        x, pre, post, mix = self.site_in(streams, pre, site(w, "attn"))
        y = self.attention(i, w, batch, x, state)
        self.note(i, attn_in=x, attn_out=y, hc_attn_pre=pre, hc_attn_post=post, hc_attn_comb=mix)
        streams = self.expand(streams, y, post, mix)
        x, after, post, mix = self.site_in(streams, pre, site(w, "ffn"))
        y, chosen = self.moe(x, part(w, EXPERTS), self.config.num_experts_per_tok)
        self.note(i, ffn_in=x, ffn_out=y)
        return self.expand(streams, y, post, mix), after, chosen

    def attention(self, i, w, batch, a, state):
        config, ratio = self.config, self.config.ratio(i)
        rope = batch.yarn if ratio else batch.plain
        q, qr, kv = self.queries(a, rope, part(w, QUERY))
        if not ratio:
            return self.attend(q, kv, batch.window, None, None, None, part(w, OUTPUT), rope)[0]
        seen = batch.seen[ratio]
        if i in config.kv_source_layer_ids:
            z = self.pairs(a, part(w, PAIRS)) if ratio == 2 else self.each(a, part(w, EACH))
            state["entry_rope"] = rope[:, ::ratio].contiguous()
            state["entries"] = self.entries(z, state["entry_rope"])
        if i in config.index_source_layer_ids:
            self.choose(i, w, batch, a, qr, z if i in config.kv_source_layer_ids else None, rope, seen, state)
        y, mass = self.attend(q, kv, batch.window, state["entries"], seen, state["chosen"], part(w, OUTPUT), rope)
        if state["learn"] and mass is not None:
            state["losses"].append(self.index_loss(state["scores"], seen, mass, batch.real))
        return y

    def choose(self, i, w, batch, a, qr, z, rope, seen, state):
        """Runs the indexer of layer i and sets the choice; with few entries everything is taken unscored."""
        config = self.config
        if z is not None:
            state["keys"] = None
            state["latent"] = z
        state["chosen"], state["scores"] = None, None
        if seen.shape[-1] <= config.index_topk:
            return
        if state["keys"] is None:
            state["keys"] = self.keys(state["latent"].detach(), part(w, KEYS), state["entry_rope"])
        scores = self.scores(a.detach(), qr.detach(), state["keys"], part(w, SCORES), rope)
        state["scores"] = scores
        with torch.no_grad():
            allowed = seen
            if i == config.candidate_source_layer_id:
                state["candidates"] = attention.candidates(config, scores, seen, batch.newest[config.ratio(i)])
            elif config.ratio(i) == config.ratio(config.candidate_source_layer_id) and "candidates" in state:
                allowed = state["candidates"]
            state["chosen"] = attention.select(config, self.num, scores, allowed)
        self.note(i, index_score=scores, sel=state["chosen"])


def logits(num, hidden, head):
    """FP32 logits."""
    return num.linear32(hidden, head)
