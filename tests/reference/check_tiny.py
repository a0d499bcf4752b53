"""Checks that the shipped tiny model's files know their arithmetic when the oracle runs them.

Usage: check_tiny.py [mode, default s32] [how many products, default 40]. Held-out questions are packed into rows together
with their right answers; an answer counts when every one of its tokens, the end of text included, is the most likely one,
which is exactly when greedy decoding would write it. Exits 1 below 95 %.
"""
import sys

import oracle  # first: puts the repository on the path
import torch

from ops.tiny_model import corpus
from ops.tiny_model.corpus import arithmetic
from ops.tiny_model.train import batch, data, network

FOLDER = oracle.ROOT / "configs" / "tiny"
ROW = data.Bucket(length=256, rows=1, align=2, pool=1, workers=1)


def samples(tokenizer, count):
    """(ids, mask) of `count` products spread over 1..20 x 1..20, the literal question of the tests first."""
    mode = corpus.Mode(False, 75)
    pairs = [(17, 19)] + [(k % 20 + 1, k * 7 // 20 % 20 + 1) for k in range(count - 1)]
    for k, (a, b) in enumerate(pairs):
        forms, requests = arithmetic.HELD_OUT_PRODUCT_FORMS, arithmetic.HELD_OUT_REQUESTS
        question = forms[k % len(forms)].format(a=a, b=b) + requests[k % len(requests)]
        if k == 0:
            question = "What is 17*19? Reply with the integer only."
        messages = [{"role": "user", "content": question}, {"role": "assistant", "content": str(a * b)}]
        yield corpus.Conversation(messages, mode).ids(tokenizer)


def rows(tokenizer, count):
    """Rows that hold all samples, and the loss weights that tell where answers are."""
    filled = [data.Row(ROW.length)]
    for ids, mask in samples(tokenizer, count):
        if filled[-1].used + len(ids) > ROW.length:
            filled.append(data.Row(ROW.length))
        filled[-1].add(ids, data.token_weights(ids, mask), ROW.align)
    return filled


@torch.no_grad()
def right_answers(model, row):
    """(right, asked) of one row."""
    ids, pos, seg = (torch.from_numpy(x).long()[None] for x in (row.ids, row.pos, row.seg))
    prepared = batch.prepare(model.config, model.tables, model.hasher, ids, pos, seg)
    hidden = model.network(model.view, prepared)["hidden"][0]
    best = network.logits(model.num, hidden, model.view.get("head")).argmax(-1)
    wrong = (best[:-1] != ids[0, 1:]) & (torch.from_numpy(row.weight)[1:] > data.CONTEXT_WEIGHT)
    missed = seg[0, 1:][wrong].unique().numel()
    return row.count - missed, row.count


def main():
    mode = sys.argv[1] if len(sys.argv) > 1 else "s32"
    count = int(sys.argv[2]) if len(sys.argv) > 2 else 40
    tokenizer = corpus.load_tokenizer(str(FOLDER / "tokenizer.json"))
    model = oracle.Oracle(FOLDER, mode)
    right = asked = 0
    for row in rows(tokenizer, count):
        good, all_ = right_answers(model, row)
        right, asked = right + good, asked + all_
        print(f"{mode}: {right}/{asked} products right", flush=True)
    return 0 if right >= 0.95 * asked else 1


if __name__ == "__main__":
    sys.exit(main())
