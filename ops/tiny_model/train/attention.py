"""Sliding-window attention with shared compressed KV: queries, window, compressor, indexer, grouped output.

Tensors are batched rows [B, T, ...] that hold one or more packed documents; masks say who sees whom (batch.py).
Not here: mHC and the order of a layer (network.py).
"""
import torch

from .numerics import rms_norm, rotate


def queries_and_window(config, num, a, rope, w):
    """a [B, T, D] -> q [B, T, H, d] rotated, qr [B, T, q_lora], window entries kv [B, T, d] after W8."""
    eps = config.rms_norm_eps
    x = num.q8(a)
    qr = num.r(rms_norm(num.linear(x, w["wq_a"]), w["q_norm"], eps))
    q = num.linear_q(qr, w["wq_b"]).unflatten(-1, (config.num_attention_heads, config.head_dim))
    q = num.r(rotate(q, rope.unsqueeze(-3)))
    kv = num.r(rms_norm(num.linear(x, w["wkv"]), w["kv_norm"], eps))
    return q, qr, num.w8(num.r(rotate(kv, rope)))


def previous_and_own(kv, window):
    """[B, T, d] -> [B, T/window, 2*window, d]: for every block of queries its own and the previous block of keys."""
    blocks = kv.unflatten(1, (-1, window))
    before = torch.cat((torch.zeros_like(blocks[:, :1]), blocks[:, :-1]), 1)
    return torch.cat((before, blocks), 2)


def _weighted(num, q, kv, window, window_mask, entries, seen, chosen, sink):
    """Softmax attention over window and entries. Returns o [B, T, H, d] and the head-summed mass on entries or None."""
    b, t, h, d = q.shape
    scale = d**-0.5
    keys = previous_and_own(kv, window)
    rows = q.reshape(b, t // window, window * h, d)
    near = torch.matmul(rows, keys.transpose(-1, -2)).float().reshape(b, t, h, 2 * window) * scale
    near = near.masked_fill(~window_mask[:, :, None], float("-inf"))
    top = near.amax(-1)
    far = None
    if entries is not None:
        far = torch.matmul(q.reshape(b, t * h, d), entries.transpose(-1, -2)).float().reshape(b, t, h, -1) * scale
        far = far.masked_fill(~seen[:, :, None], float("-inf"))
        top = torch.maximum(top, far.amax(-1))
    top = top.detach()[..., None]
    e_near = torch.exp(near - top)
    total = e_near.sum(-1, keepdim=True) + torch.exp((sink[:, None] - top).clamp(max=80.0))
    o = torch.matmul(num.r(e_near).reshape(b, t // window, window * h, -1), keys).reshape(b, t, h, d).float()
    mass = None
    if entries is not None:
        e_far = torch.exp(far - top)
        if chosen is not None:
            mass = (e_far / e_far.sum((-1), keepdim=True).clamp(min=1e-30)).detach().sum(2)
            e_far = e_far * chosen[:, :, None]
        total = total + e_far.sum(-1, keepdim=True)
        o = o + torch.matmul(num.r(e_far).reshape(b, t * h, -1), entries).reshape(b, t, h, d).float()
    return num.r(o / total), mass


def attend(config, num, q, kv, window_mask, entries, seen, chosen, w, rope):
    """The attention sub-layer's output y [B, T, D], and the attention mass on entries when a choice is in force.

    `seen` [B, T, n]: entries complete and visible; `chosen`: the indexer's pick, or None when everything seen is used.
    """
    o, mass = _weighted(num, q, kv, config.sliding_window, window_mask, entries, seen, chosen, w["sink"])
    return grouped_output(config, num, o, w, rope), mass


def grouped_output(config, num, o, w, rope):
    """Inverse rotation, the per-group projection wo_a (no Q8: the reference keeps it in BF16), then wo_b."""
    o = num.r(rotate(o, rope.unsqueeze(-3), inverse=True))
    groups = o.flatten(-2).unflatten(-1, (config.o_groups, -1))
    wo_a = w["wo_a"].unflatten(0, (config.o_groups, -1))
    parts = [num.linear(groups[..., g, :], wo_a[g]) for g in range(config.o_groups)]
    return num.linear_q(torch.cat(parts, -1), w["wo_b"])


def compress_pairs(config, num, a, w):
    """Ratio 2: latents [B, T/2, d] by a per-channel two-way softmax over each pair of tokens, in FP32."""
    k = num.linear32(a, w["comp_wkv"]).unflatten(1, (-1, 2))
    g = num.linear32(a, w["comp_wgate"]).unflatten(1, (-1, 2))
    pooled = num.r((torch.softmax(g, 2) * k).sum(2))
    return num.r(rms_norm(pooled, w["comp_norm"], config.rms_norm_eps))


def compress_each(config, num, a, w):
    """Ratio 1: one latent per token."""
    return num.r(rms_norm(num.linear(a, w["comp_wkv"]), w["comp_norm"], config.rms_norm_eps))


def entries_of(config, num, z, rope):
    """Compressed KV entries: latents rotated at the first token of their group, then N4."""
    return num.n4(num.r(rotate(z, rope)))


def index_keys(config, num, z, w, rope):
    """Index keys [B, n, index_head_dim] after X4."""
    keys = num.r(rms_norm(num.linear(z, w["ik"]), w["ik_norm"], config.rms_norm_eps))
    return num.x4(num.r(rotate(keys, rope)))


def index_scores(config, num, a, qr, keys, w, rope):
    """I(p, j) = sum_h w_h relu(iq_h . ik_j), FP32 [B, T, n]; visibility is the caller's."""
    h, d = config.index_n_heads, config.index_head_dim
    iq = num.linear_q(qr, w["iq_b"]).unflatten(-1, (h, d))
    iq = num.x4(num.r(rotate(iq, rope.unsqueeze(-3))))
    weight = num.r(num.linear(a, w["iw"]) * (d**-0.5 * h**-0.5)).float()
    b, t = iq.shape[:2]
    dots = torch.matmul(iq.reshape(b, t * h, d), keys.transpose(-1, -2)).float().reshape(b, t, h, -1)
    return (weight[..., None] * torch.relu(dots)).sum(2)


def candidates(config, scores, seen, newest):
    """CAND [B, T, n]: the best blocks of entries, the newest entry's block always among them. `newest` [T], -1 if none."""
    size, keep = config.candidate_block_size, config.candidate_topk_blocks
    n = scores.shape[-1]
    masked = torch.nn.functional.pad(scores.masked_fill(~seen, float("-inf")), (0, -n % size), value=float("-inf"))
    best = masked.unflatten(-1, (-1, size)).amax(-1)
    blocks = best.shape[-1]
    if blocks <= keep:
        return seen
    pinned = torch.arange(blocks, device=scores.device)[None, :] == (newest // size)[:, None]
    best = best.masked_fill(pinned, float("inf"))
    order = torch.sort(best, dim=-1, descending=True, stable=True)[1][..., :keep]
    mask = torch.zeros_like(best, dtype=torch.bool).scatter(-1, order, True)
    return mask.repeat_interleave(size, -1)[..., :n] & seen


def select(config, num, scores, allowed):
    """SEL as a mask [B, T, n]: the best index_topk allowed entries; ties go to the lower index outside training."""
    if scores.shape[-1] <= config.index_topk:
        return allowed
    masked = scores.masked_fill(~allowed, float("-inf"))
    if num.train:
        order = torch.topk(masked, config.index_topk, dim=-1, sorted=False)[1]
    else:
        order = torch.sort(masked, dim=-1, descending=True, stable=True)[1][..., :config.index_topk]
    return torch.zeros_like(allowed).scatter(-1, order, True) & allowed


def index_loss(config, num, scores, seen, mass, real):
    """Mean over real rows of the cross-entropy between attention mass on entries and the indexer's softmax."""
    target = mass / mass.sum(-1, keepdim=True).clamp(min=1e-30)
    log_index = torch.log_softmax(scores.masked_fill(~seen, -1e9), -1)
    per_row = -(target * log_index).sum(-1)
    rows = (real & seen.any(-1)).float()
    return (per_row * rows).sum() / rows.sum().clamp(min=1.0)
