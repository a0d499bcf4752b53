"""The model in training: master weights, their stored values, one optimisation step over several micro-batches.

Owns: straight-through quantisation of weights (the gradient of a stored value is applied to its master), the forward
and backward of backbone and draft. Not here: schedule, data and files (trainer.py).
"""
import torch

from . import batch, draft, losses, network, numerics, optim, parameters

INDEX_WEIGHT = 0.3
CONFIDENCE_WEIGHT = 0.1
ANCHOR_SHARE = 8  # one draft block is trained for every 8 tokens


def compiler(enabled):
    """The wrapper for network pieces: torch.compile with static shapes, or nothing."""
    if not enabled:
        return lambda function: function
    import torch._dynamo
    settings = torch._dynamo.config
    settings.automatic_dynamic_shapes = False
    for name, value in (("recompile_limit", 128), ("cache_size_limit", 128), ("accumulated_recompile_limit", 2048),
                        ("accumulated_cache_size_limit", 2048), ("suppress_errors", True)):
        if hasattr(settings, name):
            setattr(settings, name, value)
    known = {}

    def wrap(function):
        if function not in known:
            known[function] = torch.compile(function, dynamic=False)
        return known[function]
    return wrap


class Learner:
    """Weights, optimiser state and the functions that change them."""

    def __init__(self, config, hasher, params, device, compiled):
        self.config, self.device, self.hasher = config, device, hasher
        self.specs = parameters.specs(config)
        self.params = {key: value.to(device) for key, value in params.items()}
        self.optimiser = optim.Optimiser(self.specs, self.params)
        self.num = numerics.MODES["train"]
        wrap = compiler(compiled)
        self.network = network.Network(config, self.num, wrap)
        self.draft = draft.Draft(config, self.num, wrap)
        self.token_loss, self.draft_loss = wrap(losses.token_loss), wrap(losses.draft_loss)
        self.tables = batch.Tables(config, config.max_position_embeddings, device)
        self.refresh()

    @torch.no_grad()
    def refresh(self):
        """Recomputes the stored value of every weight from its master."""
        self.values = {}
        for spec in self.specs:
            value = self.params[spec.key]
            if spec.kind in ("f8", "fp4"):
                value = parameters.STORED[spec.kind](value).to(torch.bfloat16)
            elif spec.kind == "bf16" and spec.key != "embed":
                value = parameters.STORED["bf16"](value)
            value = value.detach().clone() if value is self.params[spec.key] else value
            self.values[spec.key] = value.requires_grad_(not spec.key.endswith("gate_bias"))

    def view(self, stem=""):
        through = lambda rows: rows + (parameters.STORED["rows"](rows.detach()) - rows.detach())
        return parameters.View(self.config, self.values, stem, through)

    def prepare(self, ids, pos, seg):
        to = lambda x: x.to(self.device, non_blocking=True)
        return batch.prepare(self.config, self.tables, self.hasher, to(ids), to(pos), to(seg))

    def backbone(self, b, learn_index):
        return self.network(self.view(), b, learn_index)

    def head(self):
        return self.values["head"]

    def micro(self, data, total, with_draft, learn_index):
        """Forward and backward of one micro-batch; gradients add up in `values`. Returns figures for the log."""
        ids, pos, seg, weight = data
        b = self.prepare(ids, pos, seg)
        weight = weight.to(self.device, non_blocking=True)
        out = self.backbone(b, learn_index)
        hidden = out["hidden"].flatten(0, 1)
        targets, w = torch.roll(b.ids, -1, 1).flatten(), torch.roll(weight, -1, 1)
        w[:, -1] = 0.0
        w = w.flatten()
        loss, per_token = self.token_loss(self.config, self.num, hidden, self.head(), targets, w)
        answers = w >= 0.5
        figures = {"answer": (per_token * answers).sum() / answers.sum().clamp(min=1)}
        objective = loss / total
        if out["index_losses"]:
            index = sum(out["index_losses"]) / len(out["index_losses"])
            objective = objective + INDEX_WEIGHT * index
            figures["index"] = index.detach()
        objective.backward()
        losses.balance(self.params["gate_bias"], out["chosen"], b.real, self.balance_rate)
        if with_draft:
            figures.update(self.draft_micro(b, out, weight))
        return figures

    balance_rate = 0.001

    def draft_micro(self, b, out, weight):
        count = b.ids.numel() // ANCHOR_SHARE
        noise = torch.rand(weight.shape, device=self.device)
        row, at = losses.pick_anchors(self.config, b, weight, count, noise)
        place, w = losses.draft_targets(self.config, b, weight, row, at)
        target = self.frozen_view()
        raw, hidden, chosen = self.draft(self.view("mtp/"), target, b, out["taps"].detach(), row, at, self.tables,
                                         b.ids[row, place[:, 0]])
        teacher = out["hidden"].detach()[row[:, None], place].flatten(0, 1)
        previous = b.ids[row[:, None], place].flatten()
        weights = {"head": self.head().detach(), "markov_embed": self.values["mtp/markov_embed"],
                   "markov_head": self.values["mtp/markov_head"], "confidence": self.values["mtp/confidence"]}
        distance, sure, overlap = self.draft_loss(self.config, self.num, raw.flatten(0, 1), hidden.flatten(0, 1), weights,
                                                  teacher, previous, w.flatten())
        norm = w.sum().clamp(min=1.0)
        ((distance + CONFIDENCE_WEIGHT * sure) / norm).backward()
        real = torch.ones_like(chosen[0][..., 0], dtype=torch.bool)
        losses.balance(self.params["mtp/gate_bias"], chosen, real, self.balance_rate)
        return {"draft": distance.detach() / norm, "overlap": overlap / norm}

    def frozen_view(self):
        """The target's embedding as the draft sees it: shared, not trained through."""
        return parameters.View(self.config, {key: value.detach() for key, value in self.values.items()})

    def step(self, micro_batches, rates, learn_index):
        """One optimisation step. micro_batches: list of (ids, pos, seg, weight); learn_index: per micro-batch."""
        total = float(sum(data[3][:, 1:].sum() for data in micro_batches))
        with_draft = rates["draft"] > 0.0
        figures = [self.micro(data, total, with_draft, learn) for data, learn in zip(micro_batches, learn_index)]
        for key, value in self.values.items():
            self.params[key].grad = None if value.grad is None else value.grad.float()
        self.optimiser.step(rates)
        self.refresh()
        return figures

    def state(self):
        return {"params": self.params, "optimiser": self.optimiser.state, "steps": self.optimiser.steps}

    def restore(self, state):
        for key, value in state["params"].items():
            self.params[key].copy_(value)
        for key, slots in state["optimiser"].items():
            for slot, value in slots.items():
                self.optimiser.state[key][slot].copy_(value)
        self.optimiser.steps = dict(state["steps"])
        self.refresh()
