"""mHC: the four residual streams, how a sub-layer reads them and writes back.

Owns: mixing coefficients, Sinkhorn, collapse and expand. A site's `pre` is used one site LATER; its `post` and `A` at once.
"""
import torch

from .numerics import rms_norm
from .sinkhorn import sinkhorn


def coefficients(config, streams, fn, base, scale):
    """streams [..., C, D] -> pre [..., C], post [..., C], logits of A [..., C, C]; FP32."""
    c = config.hc_mult
    x = streams.float().flatten(-2)
    mixes = torch.nn.functional.linear(x, fn) * torch.rsqrt(x.square().mean(-1, keepdim=True) + config.rms_norm_eps)
    pre = torch.sigmoid(mixes[..., :c] * scale[0] + base[:c]) + config.hc_eps
    post = 2.0 * torch.sigmoid(mixes[..., c:2 * c] * scale[1] + base[c:2 * c])
    logits = mixes[..., 2 * c:] * scale[2] + base[2 * c:]
    return pre, post, logits.unflatten(-1, (c, c))


def collapse(num, streams, pre):
    """One vector from the streams, weighted by the carried `pre`."""
    return num.r((pre[..., None] * streams.float()).sum(-2))


def site_in(config, num, streams, pre, w):
    """Start of a sub-layer: its normalised input, the coefficients to write back with, the `pre` for the next site."""
    next_pre, post, logits = coefficients(config, streams, w["fn"], w["base"], w["scale"])
    mix = sinkhorn(logits.contiguous(), config.hc_sinkhorn_iters, config.hc_eps)
    x = num.r(rms_norm(collapse(num, streams, pre), w["norm"], config.rms_norm_eps))
    return x, next_pre, post, mix


def expand(config, num, streams, y, post, mix):
    """S_k <- post_k y + sum_j A[j][k] S_j, from the streams before the sub-layer."""
    old = streams.float()
    out = post[..., None] * y.float()[..., None, :]
    for j in range(streams.shape[-2]):
        out = out + mix[..., j, :, None] * old[..., j:j + 1, :]
    return num.r(out)
