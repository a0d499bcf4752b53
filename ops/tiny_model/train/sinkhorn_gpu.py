"""Triton kernels for Sinkhorn on 4x4 matrices, forward and backward, registered as one differentiable operator.

The forward keeps the sums it divided by; the backward walks the divisions in reverse, restoring each matrix by
multiplying with its sums, so no intermediate matrix is stored.
"""
import torch
from torch import library
import triton
import triton.language as tl

from . import sinkhorn


@triton.jit
def _tile(pid, count, BLOCK: tl.constexpr):
    n = pid * BLOCK + tl.arange(0, BLOCK)
    j = tl.arange(0, 4)
    at = n[:, None, None] * 16 + j[None, :, None] * 4 + j[None, None, :]
    keep = (n < count)[:, None, None] & (j[None, :, None] < 4) & (j[None, None, :] < 4)
    sums = n[:, None] * 4 + j[None, :]
    return at, keep, sums, (n < count)[:, None] & (j[None, :] < 4)


@triton.jit
def _forward(logits, out, sums, count, eps, ROUNDS: tl.constexpr, BLOCK: tl.constexpr):
    at, keep, at_sum, keep_sum = _tile(tl.program_id(0), count, BLOCK)
    a = tl.load(logits + at, mask=keep, other=0.0)
    a = tl.exp(a - tl.max(a, axis=2)[:, :, None])
    a = a / tl.sum(a, axis=2)[:, :, None] + eps
    s = tl.sum(a, axis=1) + eps
    a = a / s[:, None, :]
    plane = count * 4
    tl.store(sums + at_sum, s, mask=keep_sum)
    for i in range(ROUNDS):
        s = tl.sum(a, axis=2) + eps
        a = a / s[:, :, None]
        tl.store(sums + (2 * i + 1) * plane + at_sum, s, mask=keep_sum)
        s = tl.sum(a, axis=1) + eps
        a = a / s[:, None, :]
        tl.store(sums + (2 * i + 2) * plane + at_sum, s, mask=keep_sum)
    tl.store(out + at, a, mask=keep)


@triton.jit
def _backward(out, sums, grad, result, count, eps, ROUNDS: tl.constexpr, BLOCK: tl.constexpr):
    at, keep, at_sum, keep_sum = _tile(tl.program_id(0), count, BLOCK)
    a = tl.load(out + at, mask=keep, other=0.0)
    g = tl.load(grad + at, mask=keep, other=0.0)
    plane = count * 4
    for k in range(ROUNDS):
        i = ROUNDS - 1 - k
        s = tl.load(sums + (2 * i + 2) * plane + at_sum, mask=keep_sum, other=1.0)
        g = (g - tl.sum(g * a, axis=1)[:, None, :]) / s[:, None, :]
        a = a * s[:, None, :]
        s = tl.load(sums + (2 * i + 1) * plane + at_sum, mask=keep_sum, other=1.0)
        g = (g - tl.sum(g * a, axis=2)[:, :, None]) / s[:, :, None]
        a = a * s[:, :, None]
    s = tl.load(sums + at_sum, mask=keep_sum, other=1.0)
    g = (g - tl.sum(g * a, axis=1)[:, None, :]) / s[:, None, :]
    p = a * s[:, None, :] - eps
    g = p * (g - tl.sum(g * p, axis=2)[:, :, None])
    tl.store(result + at, g, mask=keep)


BLOCK = 64


@library.custom_op("tandem::sinkhorn_forward", mutates_args=())
def forward(logits: torch.Tensor, iterations: int, eps: float) -> tuple[torch.Tensor, torch.Tensor]:
    count = logits.numel() // 16
    out = torch.empty_like(logits)
    sums = torch.empty((2 * iterations - 1, count, 4), dtype=torch.float32, device=logits.device)
    _forward[(triton.cdiv(count, BLOCK),)](logits, out, sums, count, eps, iterations - 1, BLOCK)
    return out, sums


@forward.register_fake
def _(logits, iterations, eps):
    return torch.empty_like(logits), logits.new_empty((2 * iterations - 1, logits.numel() // 16, 4))


@library.custom_op("tandem::sinkhorn_backward", mutates_args=())
def backward(out: torch.Tensor, sums: torch.Tensor, grad: torch.Tensor, iterations: int, eps: float) -> torch.Tensor:
    count = out.numel() // 16
    result = torch.empty_like(out)
    _backward[(triton.cdiv(count, BLOCK),)](out, sums, grad.contiguous(), result, count, eps, iterations - 1, BLOCK)
    return result


@backward.register_fake
def _(out, sums, grad, iterations, eps):
    return torch.empty_like(out)


def _save(ctx, inputs, output):
    ctx.iterations, ctx.eps = inputs[1], inputs[2]
    ctx.save_for_backward(*output)


def _gradient(ctx, grad, _grad_sums):
    out, sums = ctx.saved_tensors
    return backward(out, sums, grad, ctx.iterations, ctx.eps), None, None


forward.register_autograd(_gradient, setup_context=_save)


def fused(logits, iterations, eps):
    return forward(logits, iterations, eps)[0]


def largest_error(device="cuda"):
    """Largest difference to the plain path, of values and of gradients, on random logits."""
    torch.manual_seed(0)
    x = torch.randn(1000, 4, 4, device=device) * 3.0
    weight = torch.randn_like(x)
    worst = 0.0
    results = []
    for function in (sinkhorn.plain, fused):
        leaf = x.clone().requires_grad_()
        value = function(leaf, 20, 1e-6)
        (value * weight).sum().backward()
        results.append((value.detach(), leaf.grad))
    for one, other in zip(*results):
        worst = max(worst, float((one - other).abs().max()))
    return worst


def enable():
    """Uses the kernels from now on; raises if they disagree with the plain path."""
    error = largest_error()
    if not error < 1e-4:
        raise RuntimeError(f"fused Sinkhorn differs from the plain one by {error}")
    sinkhorn.FUSED = fused
    return error
