"""Engram addressing: from token ids to table rows, a function of ids alone.

Owns: the vocabulary compression, the hash multipliers, the bucket primes and the row ids of a batch of packed documents.
Not here: the module's arithmetic (network.py). Invariant: look-back never leaves a document.
"""
import unicodedata

import numpy
import torch

PROTECTED_SPACE = "\ue000"


def normalise(text):
    """NFKC, NFD, accents stripped, lower case, blank runs to one space, outer white space stripped (a lone space stays)."""
    text = unicodedata.normalize("NFD", unicodedata.normalize("NFKC", text))
    text = "".join(c for c in text if not unicodedata.category(c).startswith("M")).lower()
    out = []
    for c in text:
        blank = c in " \t\r\n"
        if not (blank and out and out[-1] == " "):
            out.append(" " if blank else c)
    text = "".join(out)
    return " " if text == " " else text.strip()


def token_map(pieces):
    """Compressed id of every token. `pieces` holds (decoded text, raw token string) in order of id."""
    seen, ids = {}, []
    for text, raw in pieces:
        key = raw if "\ufffd" in text else (normalise(text) or text)
        ids.append(seen.setdefault(key, len(seen)))
    return numpy.array(ids, "<i4"), len(seen)


def multipliers(layer_id, config):
    """The odd 64-bit multipliers of one layer, one for every look-back 0..N-1."""
    bound = (2**63 - 1) // config.engram_compressed_vocab_size // 2
    draws = numpy.random.default_rng(10007 * layer_id).integers(0, bound, config.engram_max_ngram_size, numpy.int64)
    return [2 * int(draw) + 1 for draw in draws]


def _is_prime(n):
    return n > 1 and all(n % k for k in range(2, int(n**0.5) + 1))


def primes(config):
    """Bucket counts [layer][column]: consecutive primes >= engram_vocab_size, each used once in the whole model."""
    used, table = set(), []
    for _ in config.engram_layer_ids:
        row = []
        for _order in range(config.engram_max_ngram_size - 1):
            candidate = config.engram_vocab_size - 1
            for _head in range(config.engram_n_heads):
                candidate += 1
                while candidate in used or not _is_prime(candidate):
                    candidate += 1
                used.add(candidate)
                row.append(candidate)
        table.append(row)
    return table


def row_counts(config):
    return tuple(sum(row) for row in primes(config))


class Hasher:
    """Row ids of both Engram layers for a batch of packed documents."""

    def __init__(self, config, compressed, device="cpu"):
        self.config = config
        self.map = torch.as_tensor(numpy.asarray(compressed, numpy.int64), device=device)
        self.pad = int(self.map[config.engram_pad_token_id])
        self.multipliers = [multipliers(layer, config) for layer in config.engram_layer_ids]
        table = primes(config)
        self.primes = torch.tensor(table, device=device)
        self.offsets = torch.tensor([[sum(row[:k]) for k in range(len(row))] for row in table], device=device)

    def __call__(self, ids, pos, dead=None):
        """ids, pos [B, T] (pos counts from the document's start) -> [B, T, layers, columns] int64."""
        seq = self.map[ids]
        layers = []
        for layer in range(len(self.config.engram_layer_ids)):
            layers.append(self._layer(layer, seq, pos, dead))
        return torch.stack(layers, 2)

    def _layer(self, layer, seq, pos, dead):
        heads, columns = self.config.engram_n_heads, []
        acc = torch.zeros_like(seq)
        blocked = torch.zeros_like(seq, dtype=torch.bool)
        for back in range(self.config.engram_max_ngram_size):
            value = torch.roll(seq, back, 1)
            blocked = blocked | (pos < back)
            if dead is not None:
                blocked = blocked | torch.roll(dead, back, 1)
            value = torch.where(blocked, torch.full_like(value, self.pad), value)
            acc = acc ^ (value * self.multipliers[layer][back])
            if back >= 1:
                span = slice((back - 1) * heads, back * heads)
                columns.append(acc[..., None] % self.primes[layer, span] + self.offsets[layer, span])
        return torch.cat(columns, -1)
