"""Sinkhorn normalisation of the 4x4 stream mixing matrices, with a fused GPU kernel where one can run.

Owns: `sinkhorn(logits, iterations, eps)`. Invariant: the last operation is a column normalisation; the GPU path and the
plain path compute the same function (the trainer checks that before it starts).
"""
import torch

FUSED = None  # set by sinkhorn_gpu.enable()


def plain(logits, iterations, eps):
    """softmax over k, then alternating column and row normalisations; axes [..., j, k]."""
    a = torch.softmax(logits, -1) + eps
    a = a / (a.sum(-2, keepdim=True) + eps)
    for _ in range(iterations - 1):
        a = a / (a.sum(-1, keepdim=True) + eps)
        a = a / (a.sum(-2, keepdim=True) + eps)
    return a


def sinkhorn(logits, iterations, eps):
    """The nearly doubly stochastic matrix of `logits` [..., C, C]."""
    if FUSED is not None and logits.is_cuda:
        return FUSED(logits, iterations, eps)
    return plain(logits, iterations, eps)
