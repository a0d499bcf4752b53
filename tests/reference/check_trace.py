"""Compares `tandem trace` with the oracle, prompt by prompt; exits 1 on disagreement.

Usage: check_trace.py path/to/tandem folder/of/recorded/values. Prompts without roundings, where nothing but the order of
sums may differ, and one with quantised caches that no rounding difference can reach. They contain the ids of image spans,
noise, start and end: in a text these are tokens like any other.
"""
import json
import pathlib
import subprocess
import sys
import tempfile

import oracle  # first: puts the repository on the path

from ops.tiny_model.train import storage

TINY = oracle.ROOT / "configs" / "tiny"
GOLDEN = pathlib.Path(sys.argv[2]) / "ckpt"
SPOKEN = [0, 4041, 57, 104, 116, 32, 310, 21, 27, 12, 21, 29, 33, 902, 41, 4042, 7, 7, 7, 1500, 1501, 2000, 3, 99]
SPECIAL = [0, 17, 254, 254, 93, 255, 1, 2, 254, 40, 41, 42, 255, 255, 7, 254]
BOUND = 1e-5  # relative L2; two orders of summing FP32 differ by a few 1e-7


def traced(tandem, folder, ids, mode):
    """Logits [T, V] of the engine."""
    with tempfile.TemporaryDirectory() as scratch:
        listed, out = pathlib.Path(scratch, "ids.txt"), pathlib.Path(scratch, "out.safetensors")
        listed.write_text(" ".join(map(str, ids)))
        subprocess.run([tandem, "trace", "--model", folder, "--ids", listed, "--numerics", mode, "--out", out],
                       check=True, stdout=subprocess.DEVNULL)
        return storage.read_values(out)["logits"].float()


def check(tandem, folder, ids, mode):
    got = traced(tandem, folder, ids, mode)
    want = oracle.Oracle(folder, mode).prefill(ids)[0].float()
    error = float((got - want).norm() / want.norm())
    same = bool((got.argmax(-1) == want.argmax(-1)).all())
    passed = error < BOUND and same
    print(f"{'ok  ' if passed else 'FAIL'} trace {mode} of {folder.name}, {len(ids)} rows: relative L2 {error:.2e}, "
          f"greedy choices equal: {same}")
    return passed


def main():
    config = json.loads((TINY / "config.json").read_text())
    image = config.get("image_token_id", config.get("text_config", {}).get("image_token_id"))
    cases = [(TINY, SPOKEN + [image, 12, 13, image], "fp32"), (GOLDEN, SPECIAL, "fp32"), (GOLDEN, SPECIAL, "q32")]
    return 0 if all([check(sys.argv[1], *case) for case in cases]) else 1


if __name__ == "__main__":
    sys.exit(main())
