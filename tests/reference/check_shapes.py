"""Compares `tandem trace` with the oracle on random small models of random dimensions; exits 1 on disagreement.

Usage: check_shapes.py path/to/tandem [first seed] [models] (default 3 3). The recorded values and the tiny model are two sets of
dimensions; here the number of layers, their roles, heads, groups, experts, windows, selection sizes and Engram tables vary, so that
nothing of the forward pass can be true by accident of those two. FP32 without roundings, one rank in one chunk, two and, where
groups allow it, four ranks in odd chunks; the drafts behind each forced token must be the oracle's.
"""
import dataclasses
import pathlib
import random
import subprocess
import sys
import tempfile

import oracle  # first: puts the repository on the path
import numpy

from ops.tiny_model.train import config, engram_hash, export, parameters, storage

BOUND = 1e-5  # relative L2; two orders of summing FP32 differ by a few 1e-7


def roles(rng):
    """Layer roles: leading window-only layers, then ratio 2, then ratio 1, each with at least one KV source."""
    layers, window_only, pairs = rng.choice([6, 8, 10, 11]), rng.choice([1, 2]), rng.choice([1, 2, 3, 4])
    single = window_only + pairs
    sources = [window_only, single]
    if pairs > 2 and rng.random() < 0.7:
        sources.insert(1, window_only + 2)
    scoring = sources + ([single + 2] if layers - single > 2 and rng.random() < 0.7 else [])
    return {
        "num_hidden_layers": layers,
        "compress_ratios": (0,) * window_only + (2,) * pairs + (1,) * (layers - single) + (0, 0, 0),
        "kv_source_layer_ids": tuple(sources),
        "index_source_layer_ids": tuple(scoring),
        "candidate_source_layer_id": single,
        "engram_layer_ids": tuple(sorted(rng.sample(range(1, layers), 2))),
        "dspark_target_layer_ids": tuple(sorted(rng.sample(range(window_only, layers), 3))),
    }


def random_config(rng):
    vocab, heads = rng.choice([128, 256, 320]), rng.choice([2, 4, 8])
    made = config.Config(
        vocab_size=vocab, num_attention_heads=heads, o_groups=rng.choice([g for g in (2, 4) if heads % g == 0]),
        hidden_size=rng.choice([128, 256]), q_lora_rank=rng.choice([128, 256]), n_routed_experts=rng.choice([4, 6, 10]),
        num_experts_per_tok=rng.choice([1, 2, 3]), sliding_window=rng.choice([8, 16, 32, 128]),
        candidate_topk_blocks=rng.choice([5, 8]), candidate_block_size=rng.choice([8, 16]), index_n_heads=rng.choice([4, 8]),
        index_topk=rng.choice([8, 16, 32]), engram_n_heads=rng.choice([2, 4]), engram_head_dim=rng.choice([32, 64]),
        engram_vocab_size=rng.choice([64, 512]), engram_max_ngram_size=rng.choice([3, 4]), engram_compressed_vocab_size=vocab * 3 // 4,
        dspark_noise_token_id=vocab - 1, image_token_id=vocab - 2, routed_scaling_factor=rng.choice([1.5, 2.5]),
        swiglu_limit=rng.choice([10.0, 0.5]), **roles(rng))
    return dataclasses.replace(made, engram_num_embeddings=engram_hash.row_counts(made))


def random_classes(rng, made):
    """A token map: classes are numbered by their first token."""
    classes, count = [], made.engram_compressed_vocab_size
    for token in range(made.vocab_size):
        used = max(classes, default=-1) + 1
        must = made.vocab_size - token <= count - used
        is_new = used < count and (must or used == 0 or rng.random() < 0.8)
        classes.append(used if is_new else rng.randrange(used))
    return numpy.array(classes, dtype="<i4")


def check(tandem, seed, folder):
    rng = random.Random(seed)
    made = random_config(rng)
    model, listed, out = folder / "model", folder / "ids.txt", folder / "out.safetensors"
    export.export(made, parameters.initialise(made, seed), random_classes(rng, made), model)
    ids = [rng.randrange(made.vocab_size) for _ in range(rng.choice([5, 33, 70, 150]))]
    forced, anchors = folder / "then.txt", [rng.randrange(made.vocab_size) for _ in range(3)]
    listed.write_text(" ".join(map(str, ids)))
    forced.write_text(" ".join(map(str, anchors)))
    reference = oracle.Oracle(model, "fp32")
    want = reference.prefill(ids)[0].float()
    drafts = [reference.propose(ids + anchors[:i], anchor)[0] for i, anchor in enumerate(anchors)]
    passed = True
    runs = [(1, len(ids)), (2, rng.choice([1, 3, 16]))] + ([(4, 7)] if made.o_groups % 4 == 0 else [])
    for ranks, chunk in runs:
        subprocess.run([tandem, "trace", "--model", model, "--ids", listed, "--numerics", "fp32", "--ranks", str(ranks),
                        "--chunk", str(chunk), "--then", forced, "--spec", str(made.dspark_block_size), "--out", out],
                       check=True, stdout=subprocess.DEVNULL)
        got = storage.read_values(out)
        error = float((got["logits"].float() - want).norm() / want.norm())
        is_right = error < BOUND and got["draft"].long().tolist() == drafts
        passed = passed and is_right
        print(f"{'ok  ' if is_right else 'FAIL'} model {seed}, {made.num_hidden_layers} layers, {len(ids)} rows, {ranks} ranks, "
              f"chunks of {chunk}: relative L2 {error:.2e}", flush=True)
    return passed


def main():
    first, models = (int(text) for text in (sys.argv[2:4] + ["3", "3"][len(sys.argv[2:4]):]))
    results = []
    for seed in range(first, first + models):
        with tempfile.TemporaryDirectory() as folder:
            results.append(check(sys.argv[1], seed, pathlib.Path(folder)))
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main())
