"""One batch of packed documents and everything that follows from ids and positions alone.

Owns: visibility masks, rotation tables, Engram row ids. A row holds documents one after another; `seg` numbers them
(-1 = padding) and `pos` counts inside each. Invariant: documents start at multiples of every compress ratio (and of the
candidate block where selection can bite), so groups of tokens never straddle two documents.
"""
import dataclasses

import torch

from . import numerics


class Tables:
    """Rotation tables of a configuration on a device."""

    def __init__(self, config, positions, device="cpu"):
        self.plain = numerics.rope_table(config, False, positions).to(device)
        self.yarn = numerics.rope_table(config, True, positions).to(device)


@dataclasses.dataclass
class Batch:
    ids: torch.Tensor
    pos: torch.Tensor
    seg: torch.Tensor
    rows: torch.Tensor
    plain: torch.Tensor
    yarn: torch.Tensor
    window: torch.Tensor
    seen: dict
    newest: dict

    @property
    def real(self):
        return self.seg >= 0


def _window_mask(seg, window):
    """[B, T, 2*window]: key k of the previous+own block pair is visible to query t."""
    b, t = seg.shape
    blocks = seg.unflatten(1, (-1, window))
    before = torch.cat((torch.full_like(blocks[:, :1], -2), blocks[:, :-1]), 1)
    keys = torch.cat((before, blocks), 2)
    distance = torch.arange(window, device=seg.device)[:, None] + window - torch.arange(2 * window, device=seg.device)
    near = (distance >= 0) & (distance < window)
    same = keys[:, :, None, :] == blocks[:, :, :, None]
    return (same & near).reshape(b, t, 2 * window)


def _seen(seg, ratio):
    """[B, T, T/ratio]: entry j is complete at query t and of the same document."""
    t = seg.shape[1]
    last = torch.arange(t // ratio, device=seg.device) * ratio + ratio - 1
    first_seg, last_seg = seg[:, ::ratio], seg[:, ratio - 1::ratio]
    whole = (first_seg == last_seg) & (first_seg >= 0)
    done = torch.arange(t, device=seg.device)[:, None] >= last
    return done & (seg[:, :, None] == last_seg[:, None, :]) & whole[:, None, :]


def prepare(config, tables, hasher, ids, pos, seg, dead=None):
    """ids, pos, seg [B, T] int64 -> Batch. T is a multiple of the window and of every ratio."""
    ratios = sorted({r for r in config.compress_ratios if r})
    t = torch.arange(ids.shape[1], device=ids.device)
    return Batch(
        ids=ids, pos=pos, seg=seg, rows=hasher(ids, pos, dead),
        plain=tables.plain[pos], yarn=tables.yarn[pos],
        window=_window_mask(seg, config.sliding_window),
        seen={r: _seen(seg, r) for r in ratios},
        newest={r: (t + 1) // r - 1 for r in ratios},
    )


def single(config, tables, hasher, tokens, dead=None):
    """One unpadded document as a batch of one row, padded to whole windows."""
    step = config.sliding_window * 2 if config.sliding_window % 2 else config.sliding_window
    length = len(tokens)
    total = -(-length // step) * step
    ids = torch.zeros(1, total, dtype=torch.int64)
    ids[0, :length] = torch.as_tensor(tokens)
    pos = torch.arange(total)[None].clone()
    seg = torch.where(pos < length, torch.zeros_like(pos), torch.full_like(pos, -1))
    return prepare(config, tables, hasher, ids, pos, seg, dead)
