"""Compares the oracle with the recorded values of the reference forward; exits 1 on any disagreement beyond its bound.

Usage: check_golden.py [--quick] [folder with ckpt/ and *.safetensors] (default build/release/golden/model). --quick leaves out the
modes with roundings and the two longest prompts: what remains takes seconds instead of minutes.
"""
import pathlib
import sys

import oracle  # first: puts the repository on the path
import torch

from ops.tiny_model.train import batch, engram_hash, formats, storage

IS_QUICK = "--quick" in sys.argv[1:]
GIVEN = [argument for argument in sys.argv[1:] if argument != "--quick"]
FOLDER = pathlib.Path(GIVEN[0]) if GIVEN else oracle.ROOT / "build/release/golden/model"
MODES = [("fp32", 1e-5)] if IS_QUICK else [("fp32", 1e-5), ("q32", 0.2), ("s32", 0.25)]
PROMPTS = ["p1", "p2", "p17", "p34", "p41", "p97"] + ([] if IS_QUICK else ["p200", "p701"])
failures = []


def relative(value, expected):
    return float((value - expected).norm() / expected.norm().clamp(min=1e-30))


def report(name, passed, detail):
    print(f"{'ok  ' if passed else 'FAIL'} {name}: {detail}", flush=True)
    if not passed:
        failures.append(name)


def check_hash(model):
    golden = storage.read_values(FOLDER / "engram.safetensors")
    tokens, dead = golden["tokens"].long()[None], golden["keep"][None] == 0
    pos = torch.arange(tokens.shape[1])[None]
    rows = model.hasher(tokens, pos, dead)[0]
    want = golden["row_ids"].long()
    alive = ~dead[0]
    report("engram row ids", bool((rows[alive] == want[alive]).all()), f"{int(alive.sum())} positions")
    want_primes = golden["primes"].long().tolist()
    report("engram primes", engram_hash.primes(model.config) == want_primes, "both layers")


def check_prefill(model, mode, prompts, bound):
    inputs = storage.read_values(FOLDER / "inputs.safetensors")
    golden = storage.read_values(FOLDER / "logits.safetensors")
    for prompt in prompts:
        tokens = inputs[f"prompt.{prompt}"].tolist()
        logits, _, _ = model.prefill(tokens)
        want = golden[f"{mode}.{prompt}"]
        error = relative(logits[-len(want):], want)
        report(f"logits {mode} {prompt}", error < bound, f"relative L2 {error:.2e}")


def check_decode(model, mode, bound):
    """Teacher-forced continuation: the last 64 rows of one prefill equal 64 decode steps."""
    inputs = storage.read_values(FOLDER / "inputs.safetensors")
    golden = storage.read_values(FOLDER / "decode.safetensors")
    tokens = inputs["prompt.p97"].tolist() + inputs["continuation"].tolist()
    want = golden[f"{mode}.p97"]
    error = relative(model.prefill(tokens)[0][-len(want):], want)
    report(f"decode {mode} p97", error < bound, f"relative L2 {error:.2e}")


def check_drafts(model, mode, at_least):
    golden = storage.read_values(FOLDER / "dspark.safetensors")
    inputs = storage.read_values(FOLDER / "inputs.safetensors")
    continuation = inputs["continuation"].tolist()
    same = total = 0
    for prompt, steps in (("p97", 11), ("p2", 2)):
        tokens = inputs[f"prompt.{prompt}"].tolist()
        for step in range(steps):
            key = f"{mode}.{prompt}.step{step}.anchor_and_drafts"
            if key not in golden:
                continue
            anchor, *want = golden[key].tolist()
            ids, _ = model.propose(tokens + continuation[:step], anchor)
            same += sum(a == b for a, b in zip(ids, want))
            total += len(want)
    report(f"drafts {mode}", total > 0 and same >= at_least * total, f"{same}/{total} equal")


def check_operators():
    golden = storage.read_values(FOLDER / "ops.safetensors")
    for name, function in (("w8", formats.q8), ("x4", formats.x4), ("n4", formats.n4)):
        got, want = function(golden["quant.x"].float()).to(torch.bfloat16), golden[f"{name}.y"]
        report(f"operator {name}", bool((got == want).all()), "bit for bit")


def main():
    check_operators()
    for mode, bound in MODES:
        model = oracle.Oracle(FOLDER / "ckpt", mode)
        if mode == "fp32":
            check_hash(model)
        check_prefill(model, mode, PROMPTS, bound)
        check_decode(model, mode, bound)
        if mode != "fp32":
            check_drafts(model, mode, 1.0 if mode == "q32" else 0.8)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
