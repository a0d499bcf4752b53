"""The number formats of the official checkpoint and the roundings of its forward pass, by arithmetic on bits.

Owns: e4m3fn / e8m0 / e2m1 codes, FP8 32x32 and packed FP4 weight blocks, the activation quantisers Q8, W8, X4 and N4.
Not here: where they apply (numerics.py). Works on any torch >= 1.13: no native fp8 types are used.
Invariant: every rounding is round-to-nearest, ties to even, and every scale is an exact power of two except N4's.
"""
import torch

E2M1_VALUES = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0)


def _exponent(x):
    """floor(log2 |x|) of a normal FP32 number, from its bits."""
    return ((x.abs().view(torch.int32) >> 23) & 0xFF) - 127


def _pow2(exponent):
    """2^exponent as FP32 for exponents of normal numbers."""
    return ((exponent + 127) << 23).view(torch.float32)


def pow2ceil(x):
    """Smallest power of two >= x, for positive normal FP32 x; exact at powers of two."""
    bits = x.view(torch.int32)
    return (((bits + 0x7FFFFF) >> 23) << 23).view(torch.float32)


def _round_steps(x, smallest, mantissa_bits):
    """Rounds to `mantissa_bits` explicit bits, with gradual underflow below exponent `smallest`."""
    shift = _exponent(x).clamp(min=smallest) - mantissa_bits
    return torch.round(x * _pow2(-shift)) * _pow2(shift)


def round_e4m3(x):
    """Nearest e4m3fn value of FP32 x with |x| <= 448."""
    return _round_steps(x, -6, 3)


def round_e2m1(x):
    """Nearest of +-{0, .5, 1, 1.5, 2, 3, 4, 6} for |x| <= 6."""
    return _round_steps(x, 0, 1)


def _grouped(x, group):
    return x.reshape(*x.shape[:-1], x.shape[-1] // group, group)


def q8(x):
    """Q8 and W8: per 32 channels e4m3 with scale pow2ceil(max(amax, 1e-4) / 448); returns dequantised FP32."""
    g = _grouped(x.float(), 32)
    scale = pow2ceil(g.abs().amax(-1, keepdim=True).clamp(min=1e-4) * (1.0 / 448.0))
    return (round_e4m3((g / scale).clamp(-448.0, 448.0)) * scale).reshape(x.shape)


def x4(x):
    """X4, index queries and keys: per 32 channels e2m1 with scale pow2ceil(amax / 6)."""
    g = _grouped(x.float(), 32)
    scale = pow2ceil(g.abs().amax(-1, keepdim=True).clamp(min=6.0 * 2.0**-126) * (1.0 / 6.0))
    return (round_e2m1((g / scale).clamp(-6.0, 6.0)) * scale).reshape(x.shape)


def n4(x):
    """N4, compressed KV: per 16 channels e2m1 with an e4m3 scale amax / 6 (not a power of two)."""
    g = _grouped(x.float(), 16)
    amax = g.abs().amax(-1, keepdim=True).clamp(min=6.0 * 2.0**-9)
    scale = round_e4m3((amax / 6.0).clamp(max=448.0))
    return (round_e2m1((g / scale).clamp(-6.0, 6.0)) * scale).reshape(x.shape)


def _blocks(w):
    """[..., out, in] as [..., out/32, 32, in/32, 32]."""
    return w.reshape(*w.shape[:-2], w.shape[-2] // 32, 32, w.shape[-1] // 32, 32)


def fp8_block_scale(w):
    """Power-of-two scale of every 32x32 block, [..., out/32, 1, in/32, 1]."""
    amax = _blocks(w).abs().amax(dim=(-3, -1), keepdim=True).clamp(min=1e-12)
    return pow2ceil(amax * (1.0 / 448.0))


def fp8_weight(w):
    """The value an FP8 weight matrix has after storage, FP32."""
    scale = fp8_block_scale(w)
    return (round_e4m3((_blocks(w) / scale).clamp(-448.0, 448.0)) * scale).reshape(w.shape)


def fp4_row_scale(w):
    """Power-of-two scale of every 32 columns of a row, [..., in/32, 1]."""
    amax = _grouped(w, 32).abs().amax(-1, keepdim=True).clamp(min=1e-12)
    return pow2ceil(amax * (1.0 / 6.0))


def fp4_weight(w):
    """The value a packed FP4 expert matrix has after storage, FP32."""
    scale = fp4_row_scale(w)
    return (round_e2m1((_grouped(w, 32) / scale).clamp(-6.0, 6.0)) * scale).reshape(w.shape)


def fp8_row_scale(rows):
    """Power-of-two scale of every 32 columns of an Engram row."""
    amax = _grouped(rows, 32).abs().amax(-1, keepdim=True).clamp(min=1e-12)
    return pow2ceil(amax * (1.0 / 448.0))


def fp8_rows(rows):
    """The value Engram table rows have after storage, FP32."""
    scale = fp8_row_scale(rows)
    return (round_e4m3((_grouped(rows, 32) / scale).clamp(-448.0, 448.0)) * scale).reshape(rows.shape)


# ---- codes (storage) ----------------------------------------------------------------------------------------------


def e4m3_decode_table():
    """FP32 value of each of the 256 e4m3fn codes; 0x7F and 0xFF are NaN."""
    code = torch.arange(256)
    exponent, mantissa = (code >> 3) & 15, (code & 7).float()
    normal = (1.0 + mantissa / 8.0) * torch.pow(2.0, (exponent - 7).float())
    value = torch.where(exponent == 0, mantissa * 2.0**-9, normal)
    value = torch.where((code & 127) == 127, torch.tensor(float("nan")), value)
    return torch.where(code >= 128, -value, value)


def e4m3_encode(values):
    """Codes (uint8) of FP32 values that are already representable."""
    magnitude = values.abs().contiguous()
    exponent = _exponent(magnitude).clamp(min=-7)
    normal = exponent >= -6
    mantissa = torch.where(normal, magnitude * _pow2(3 - exponent.clamp(min=-6)) - 8.0, magnitude * 512.0)
    code = mantissa.round().int() + torch.where(normal, (exponent + 7) << 3, torch.zeros_like(exponent))
    return (code | ((values < 0).int() << 7)).to(torch.uint8)


def e8m0_encode(scale):
    """Exponent byte of an exact power of two."""
    return (_exponent(scale.contiguous()) + 127).to(torch.uint8)


def e8m0_decode(code):
    """2^(byte - 127); byte 0 reads as 0 like a shifted FP32 exponent field."""
    return (code.int() << 23).view(torch.float32)


def e2m1_pack(values):
    """Packs representable e2m1 values [..., n] to bytes [..., n/2], low nibble first."""
    levels = torch.tensor(E2M1_VALUES)
    code = torch.bucketize(values.abs(), levels - 0.125, right=True) - 1
    code = code.int() | ((values < 0).int() << 3)
    return (code[..., 0::2] | (code[..., 1::2] << 4)).to(torch.uint8)


def e2m1_unpack(packed):
    """Bytes [..., n/2] to FP32 values [..., n]."""
    levels = torch.tensor(E2M1_VALUES + tuple(-v for v in E2M1_VALUES))
    code = packed.to(torch.int64)
    return torch.stack((levels[code & 15], levels[code >> 4]), -1).flatten(-2)


def dequantise_fp8(codes, scales):
    """FP8 weight [out, in] with block scales [out/32, in/32], or rows [n, d] with scales [n, d/32] -> FP32."""
    values, scale = e4m3_decode_table()[codes.long()], e8m0_decode(scales)
    rows = codes.shape[0] // scales.shape[0]
    return values * scale.repeat_interleave(rows, 0).repeat_interleave(32, 1)


def dequantise_fp4(packed, scales):
    """Packed FP4 [out, in/2] with scales [out, in/32] -> FP32 [out, in]."""
    return e2m1_unpack(packed) * e8m0_decode(scales).repeat_interleave(32, 1)
