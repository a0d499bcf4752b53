"""The torch oracle: a checkpoint folder in the official format, run in any numeric mode, checked against recorded values.

Owns: loading, prefill logits, draft proposals, greedy decoding by recomputation. The arithmetic is the tiny model's own
network (ops/tiny_model/train), whose fidelity this folder's checks establish. Needs torch >= 1.13 and numpy only.
"""
import pathlib
import sys

try:
    import numpy
    import torch
except ImportError as missing:
    print(f"skipped: the oracle needs numpy and torch ({missing})")
    sys.exit(77)  # what CTest counts as skipped

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from ops.tiny_model.train import batch, config, draft, engram_hash, network, numerics, parameters  # noqa: E402


class Oracle:
    """One checkpoint in one mode (fp32, q32, noq8, s32)."""

    def __init__(self, folder, mode, positions=8192):
        folder = pathlib.Path(folder)
        self.config = config.load(folder / "config.json")
        self.num = numerics.MODES[mode]
        values = parameters.load(self.config, folder)
        self.view = parameters.View(self.config, values)
        self.draft_view = parameters.View(self.config, values, "mtp/")
        self.tables = batch.Tables(self.config, positions)
        compressed = numpy.fromfile(folder / "engram_token_map.i32", "<i4")
        self.hasher = engram_hash.Hasher(self.config, compressed)
        self.network = network.Network(self.config, self.num)
        self.draft = draft.Draft(self.config, self.num)

    def batch(self, tokens):
        return batch.single(self.config, self.tables, self.hasher, tokens)

    @torch.no_grad()
    def prefill(self, tokens):
        """Logits [T, V] of one prefill, the batch and the network's outputs (for drafting)."""
        b = self.batch(tokens)
        out = self.network(self.view, b)
        hidden = out["hidden"][0, :len(tokens)]
        return network.logits(self.num, hidden, self.view.get("head")), b, out

    @torch.no_grad()
    def propose(self, tokens, anchor):
        """Greedy drafts [block] and raw confidences after `tokens` are committed and `anchor` was sampled."""
        _, b, out = self.prefill(tokens)
        zero = torch.zeros(1, dtype=torch.int64)
        anchors = torch.tensor([anchor])
        at = torch.tensor([len(tokens) - 1])
        raw, hidden, _ = self.draft(self.draft_view, self.view, b, out["taps"], zero, at, self.tables, anchors)
        base = network.logits(self.num, hidden, self.view.get("head"))
        ids, sure = draft.greedy_chain(self.num, self.draft_view, raw, base, anchors, self.config.dspark_block_size)
        return ids[0].tolist(), sure[0]

    def greedy(self, tokens, limit, stop=()):
        """Greedy continuation by recomputing the whole prefix for every token."""
        tokens = list(tokens)
        for _ in range(limit):
            logits, _, _ = self.prefill(tokens)
            tokens.append(int(logits[-1].argmax()))
            if tokens[-1] in stop:
                break
        return tokens
