"""The mixture of experts: router, clamped SwiGLU experts, shared expert.

In `train` every expert is evaluated on every token in one product and the routing weight (0 where not chosen) selects;
elsewhere experts run one by one with the reference's rounding of each partial result.
"""
import torch
import torch.nn.functional as F


def route(config, num, x, gate, bias, top):
    """Routing weights [N, E], zero for experts that were not chosen, and the choice as a mask."""
    scores = torch.sqrt(F.softplus(num.linear32(x, gate)))
    biased = (scores + bias).detach()
    if num.train:
        chosen = torch.zeros_like(biased, dtype=torch.bool)
        for _ in range(top):
            rest = biased.masked_fill(chosen, float("-inf"))
            chosen = chosen | (rest == rest.amax(-1, keepdim=True))
    else:
        order = torch.sort(biased, dim=-1, descending=True, stable=True)[1][..., :top]
        chosen = torch.zeros_like(biased, dtype=torch.bool).scatter(-1, order, True)
    kept = scores * chosen
    weights = kept / (kept.sum(-1, keepdim=True) + 1e-20) * config.routed_scaling_factor
    return weights, chosen


def _gated(config, g, u):
    limit = config.swiglu_limit
    return F.silu(g.float().clamp(max=limit)) * u.float().clamp(-limit, limit)


def _one_by_one(config, num, x, weights, w):
    x = num.q8(x)
    total = 0.0
    for e in range(weights.shape[-1]):
        h = _gated(config, num.linear(x, w["w1"][e]), num.linear(x, w["w3"][e])) * weights[..., e:e + 1]
        total = total + num.linear_q(num.r(h), w["w2"][e]).float()
    h = num.r(_gated(config, num.linear(x, w["s1"]), num.linear(x, w["s3"])))
    return num.r(total + num.linear_q(h, w["s2"]).float())


def _all_at_once(config, num, x, weights, w):
    e, inter, width = w["w1"].shape
    x = num.q8(x)
    first = torch.cat((w["w1"].reshape(e * inter, width), w["s1"]))
    third = torch.cat((w["w3"].reshape(e * inter, width), w["s3"]))
    second = torch.cat((w["w2"].permute(1, 0, 2).reshape(width, e * inter), w["s2"]), 1)
    h = _gated(config, num.linear(x, first), num.linear(x, third)).unflatten(-1, (e + 1, inter))
    scale = torch.cat((weights, torch.ones_like(weights[..., :1])), -1)
    return num.linear_q(num.r((h * scale[..., None]).flatten(-2)), second)


def moe(config, num, x, w, top):
    """x [..., D] -> the layer's output [..., D] and which experts each token chose [..., E]."""
    weights, chosen = route(config, num, x, w["gate"], w["gate_bias"], top)
    run = _all_at_once if num.train else _one_by_one
    return run(config, num, x, weights, w), chosen
