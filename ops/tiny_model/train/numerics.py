"""Where values are rounded: one policy object that turns the same network into oracle or trainable model.

Owns: the modes, linear layers with their activation quantiser, RMSNorm, rotary embedding.
Modes (what each rounds):
  fp32   nothing                                      q32   W8, N4, X4 on FP32 activations
  noq8   BF16 activations, W8, N4, X4                 s32   noq8 plus Q8 in front of every FP8 / FP4 product
  train  s32 on real bf16 tensors, straight-through gradients, experts summed in one product
Invariant: in every mode but `train` a rounded value is held in FP32, so products accumulate in FP32.
"""
import dataclasses

import torch
import torch.nn.functional as F

from . import formats


@dataclasses.dataclass(frozen=True)
class Numerics:
    rounds: bool = False
    caches: bool = False
    activations: bool = False
    train: bool = False

    def r(self, x):
        """The BF16 rounding of an activation."""
        if self.train:
            return x.to(torch.bfloat16)
        return x.to(torch.bfloat16).float() if self.rounds else x

    def _through(self, quantise, x):
        """Quantised value, identity gradient; FP32 result."""
        x = x.float()
        if not self.train:
            return quantise(x)
        return x + (quantise(x.detach()) - x.detach())

    def q8(self, x):
        return self.r(self._through(formats.q8, x)) if self.activations else x

    def w8(self, x):
        return self.r(self._through(formats.q8, x)) if self.caches else x

    def x4(self, x):
        return self.r(self._through(formats.x4, x)) if self.caches else x

    def n4(self, x):
        return self.r(self._through(formats.n4, x)) if self.caches else x

    def linear(self, x, w):
        """BF16 product without activation quantiser."""
        if self.train:
            return F.linear(x.to(torch.bfloat16), w.to(torch.bfloat16))
        return self.r(F.linear(x, w))

    def linear_q(self, x, w):
        """Product with an FP8 or FP4 weight: Q8 on the input where the mode has it."""
        return self.linear(self.q8(x), w)

    def linear32(self, x, w):
        """FP32 product with an FP32 result."""
        return F.linear(x.float(), w.float())


MODES = {
    "fp32": Numerics(),
    "q32": Numerics(caches=True),
    "noq8": Numerics(rounds=True, caches=True),
    "s32": Numerics(rounds=True, caches=True, activations=True),
    "train": Numerics(rounds=True, caches=True, activations=True, train=True),
}


def rms_norm(x, weight, eps):
    """FP32 RMSNorm over the last axis; the caller rounds."""
    x = x.float()
    return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + eps) * weight.float()


def rope_frequencies(config, compressed):
    """The 32 FP32 rotation frequencies: plain for ratio 0, YaRN for compressed layers."""
    half = config.qk_rope_head_dim // 2
    theta = config.compress_rope_theta if compressed else config.rope_theta
    powers = torch.pow(torch.tensor(theta, dtype=torch.float64), torch.arange(half, dtype=torch.float64) / half)
    base = 1.0 / powers.float()
    if not compressed:
        return base
    low, high = yarn_ramp(config, theta)
    ramp = ((torch.arange(half, dtype=torch.float32) - low) / (high - low)).clamp(0.0, 1.0)
    return (base / config.rope_factor) * ramp + base * (1.0 - ramp)


def yarn_ramp(config, theta):
    """Channel pairs between which YaRN blends from unscaled to scaled frequencies."""
    import math

    def pair(rotations):
        span = config.rope_original_max / (rotations * 2.0 * math.pi)
        return config.qk_rope_head_dim * math.log(span) / (2.0 * math.log(theta))

    low = max(math.floor(pair(config.rope_beta_fast)), 0)
    high = min(math.ceil(pair(config.rope_beta_slow)), config.qk_rope_head_dim - 1)
    return float(low), float(high if high > low else low + 0.001)


def rope_table(config, compressed, positions):
    """[positions, 2, 32]: cos and sin in FP32."""
    angles = torch.arange(positions, dtype=torch.float32)[:, None] * rope_frequencies(config, compressed)
    return torch.stack((torch.cos(angles), torch.sin(angles)), 1)


def rotate(x, table, inverse=False):
    """Rotates the last 2*k channels of x (interleaved pairs); table [..., 2, k] broadcasts over x's leading axes."""
    cos, sin = table[..., 0, :], table[..., 1, :]
    sin = -sin if inverse else sin
    split = x.shape[-1] - 2 * cos.shape[-1]
    pairs = x[..., split:].float().unflatten(-1, (-1, 2))
    even, odd = pairs[..., 0], pairs[..., 1]
    turned = torch.stack((even * cos - odd * sin, even * sin + odd * cos), -1).flatten(-2)
    return torch.cat((x[..., :split].float(), turned), -1)
