"""Compares `tandem trace` on the tiny model with the oracle; exits 1 on disagreement.

Usage: check_trace.py path/to/tandem. One short prompt without roundings, where nothing but the order of sums may differ.
"""
import pathlib
import subprocess
import sys
import tempfile

import oracle  # first: puts the repository on the path

from ops.tiny_model.train import storage

FOLDER = oracle.ROOT / "configs" / "tiny"
PROMPT = [0, 4041, 57, 104, 116, 32, 310, 21, 27, 12, 21, 29, 33, 902, 41, 4042, 7, 7, 7, 1500, 1501, 2000, 3, 99]
BOUND = 1e-5  # relative L2; two orders of summing FP32 differ by a few 1e-7


def traced(tandem, ids):
    """Logits [T, V] of the engine."""
    with tempfile.TemporaryDirectory() as folder:
        listed, out = pathlib.Path(folder, "ids.txt"), pathlib.Path(folder, "out.safetensors")
        listed.write_text(" ".join(map(str, ids)))
        subprocess.run([tandem, "trace", "--model", FOLDER, "--ids", listed, "--numerics", "fp32", "--out", out],
                       check=True, stdout=subprocess.DEVNULL)
        return storage.read_values(out)["logits"].float()


def main():
    got = traced(sys.argv[1], PROMPT)
    want = oracle.Oracle(FOLDER, "fp32").prefill(PROMPT)[0].float()
    error = float((got - want).norm() / want.norm())
    same = bool((got.argmax(-1) == want.argmax(-1)).all())
    verdict = "ok  " if error < BOUND and same else "FAIL"
    print(f"{verdict} trace fp32, {len(PROMPT)} rows: relative L2 {error:.2e}, greedy choices equal: {same}")
    return 0 if error < BOUND and same else 1


if __name__ == "__main__":
    sys.exit(main())
