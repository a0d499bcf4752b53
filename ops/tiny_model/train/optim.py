"""Muon for matrices, Adam for everything else, on stacked weights.

Muon orthogonalises the momentum of each matrix of a stack (Newton-Schulz in bf16), so every layer and expert moves at
the same rate. Owns: which weight is optimised how, and the learning rates relative to the schedule.
"""
import torch

MUON_KINDS = ("f8", "fp4")
MUON_KEYS = ("comp_wkv", "comp_wgate", "ik")
MUON_RATE = 0.02
ADAM_RATES = {
    "embed": 0.01, "engram_table": 0.01, "head": 0.004, "markov": 0.004, "fn": 0.0005, "gate": 0.002, "iw": 0.003,
    "confidence": 0.002,
}
ADAM_DEFAULT = 0.003


def uses_muon(spec):
    return spec.kind in MUON_KINDS or spec.key.split("/")[-1] in MUON_KEYS


def adam_rate(key):
    """Learning rate at full schedule of a weight optimised by Adam."""
    name = key.split("/")[-1]
    for pattern, rate in ADAM_RATES.items():
        if name.startswith(pattern) or name.endswith("_" + pattern):
            return rate
    return ADAM_DEFAULT


def orthogonalise(g):
    """Nearest (semi-)orthogonal matrix of each g [N, m, n], approximately, by five Newton-Schulz steps."""
    x = g.to(torch.bfloat16) if g.is_cuda else g
    flip = x.shape[-2] > x.shape[-1]
    x = x.transpose(-1, -2) if flip else x
    x = x / (x.norm(dim=(-2, -1), keepdim=True) + 1e-7)
    for _ in range(5):
        a = x @ x.transpose(-1, -2)
        x = 3.4445 * x + (-4.7750 * a + 2.0315 * (a @ a)) @ x
    return (x.transpose(-1, -2) if flip else x).float()


class Optimiser:
    """Steps the master weights in place. State is a plain dict of tensors, for checkpoints."""

    def __init__(self, specs, params):
        self.specs = [s for s in specs if not s.key.endswith("gate_bias")]
        self.params = params
        self.state = {}
        for spec in self.specs:
            slots = ("m",) if uses_muon(spec) else ("m", "v")
            self.state[spec.key] = {slot: torch.zeros_like(params[spec.key]) for slot in slots}
        self.steps = {"backbone": 0, "draft": 0}

    @torch.no_grad()
    def step(self, rates, decay=0.05):
        """rates: {"backbone": x, "draft": y} multiply the base rates; a group at 0 is left alone."""
        for group, rate in rates.items():
            if rate > 0.0:
                self.steps[group] += 1
                chosen = [s for s in self.specs if s.key.startswith("mtp/") == (group == "draft")]
                self._adam([s for s in chosen if not uses_muon(s)], rate, self.steps[group])
                for spec in chosen:
                    if uses_muon(spec):
                        self._muon(spec, rate, decay)

    def _muon(self, spec, rate, decay):
        p, momentum = self.params[spec.key], self.state[spec.key]["m"]
        if p.grad is None:
            return
        momentum.lerp_(p.grad, 0.05)
        direction = torch.lerp(p.grad, momentum, 0.95).reshape(-1, *p.shape[-2:])
        update = orthogonalise(direction).reshape(p.shape)
        size = max(1.0, p.shape[-2] / p.shape[-1]) ** 0.5
        p.mul_(1.0 - MUON_RATE * rate * decay).add_(update, alpha=-MUON_RATE * rate * size)

    def _adam(self, specs, rate, step, beta1=0.9, beta2=0.98):
        for spec in specs:
            p, state = self.params[spec.key], self.state[spec.key]
            if p.grad is None:
                continue
            state["m"].lerp_(p.grad, 1.0 - beta1)
            state["v"].lerp_(p.grad.square(), 1.0 - beta2)
            mean = state["m"] / (1.0 - beta1**step)
            spread = (state["v"] / (1.0 - beta2**step)).sqrt_().add_(1e-10)
            p.addcdiv_(mean, spread, value=-adam_rate(spec.key) * rate)
