"""Writes the model in the official checkpoint format and reads a tokenizer's pieces for the Engram token map.

Owns: shards of at most SHARD_BYTES, the index file, config.json, engram_token_map.i32. Invariant: the written tensors
dequantise to exactly the values the training forward used.
"""
import json
import pathlib

import torch

from . import config as config_file
from . import engram_hash, formats, parameters, storage

SHARD_BYTES = 14 * 1024 * 1024


def token_pieces(tokenizer):
    """(decoded text, raw token string) of every id, specials included."""
    names = {i: text for text, i in tokenizer.vocab.items()}
    names.update({i: text for text, i in tokenizer.added.items()})
    return [(tokenizer.decode([i], with_special=True), names.get(i, "")) for i in range(tokenizer.size)]


def token_map(tokenizer):
    """Compressed ids as little-endian int32 and how many there are."""
    return engram_hash.token_map(token_pieces(tokenizer))


def configuration(tokenizer, compressed, base=config_file.Config()):
    """The configuration of the tiny model for a tokenizer."""
    import dataclasses
    values = dataclasses.replace(
        base, vocab_size=tokenizer.size, engram_compressed_vocab_size=compressed,
        dspark_noise_token_id=tokenizer.special("<｜System｜>"), image_token_id=tokenizer.special("<｜deepseek_image｜>"),
        bos_token_id=tokenizer.special("<｜begin▁of▁sentence｜>"), eos_token_id=tokenizer.special("<｜end▁of▁sentence｜>"),
        pad_token_id=tokenizer.special("<｜▁pad▁｜>"), engram_pad_token_id=tokenizer.special("<｜▁pad▁｜>"))
    return dataclasses.replace(values, engram_num_embeddings=engram_hash.row_counts(values))


def _scaled(name, codes, scale):
    return {name: codes, name.replace(".weight", ".scale"): ("F8_E8M0", formats.e8m0_encode(scale))}


def encode(name, value, kind):
    """Official tensors of one weight matrix: name -> (dtype, tensor)."""
    value = value.float().contiguous()
    if kind == "f8":
        scale = formats.fp8_block_scale(value)
        codes = formats.e4m3_encode((formats.fp8_weight(value).reshape(scale.shape[0], 32, -1, 32) / scale).reshape(value.shape))
        return _scaled(name, ("F8_E4M3", codes), scale[:, 0, :, 0])
    if kind == "rows":
        scale = formats.fp8_row_scale(value)
        codes = formats.e4m3_encode((formats.fp8_rows(value).unflatten(-1, (-1, 32)) / scale).reshape(value.shape))
        return _scaled(name, ("F8_E4M3", codes), scale[..., 0])
    if kind == "fp4":
        scale = formats.fp4_row_scale(value)
        codes = formats.e2m1_pack((formats.fp4_weight(value).unflatten(-1, (-1, 32)) / scale).reshape(value.shape))
        return _scaled(name, ("I8", codes), scale[..., 0])
    if kind == "bf16":
        return {name: ("BF16", value.to(torch.bfloat16))}
    return {name: ("F32", value)}


def official_tensors(config, params):
    """All tensors of the checkpoint, in the order of layers."""
    tensors = {}
    for spec in parameters.specs(config):
        names = list(spec.names())
        matrices = params[spec.key].detach().cpu().reshape(len(names), *spec.shape)
        for name, value in zip(names, matrices):
            tensors.update(encode(name, value, spec.kind))
            if name.endswith("gate.bias"):
                tensors[name + "_vl"] = ("F32", torch.zeros_like(value))
    return dict(sorted(tensors.items(), key=lambda item: _order(item[0])))


def _order(name):
    parts = name.split(".")
    group = {"embed": 0, "layers": 1, "norm": 2, "head": 3, "mtp": 4}[parts[0]]
    return (group, int(parts[1]) if parts[0] in ("layers", "mtp") else 0, name)


def _shards(tensors):
    """Lists of names whose payload stays below SHARD_BYTES."""
    shards, size = [[]], 0
    for name, (_, value) in tensors.items():
        bytes_ = value.numel() * value.element_size()
        if shards[-1] and size + bytes_ > SHARD_BYTES:
            shards.append([])
            size = 0
        shards[-1].append(name)
        size += bytes_
    return shards


def export(config, params, compressed, folder):
    """Writes config, token map, shards and index into `folder`; returns the bytes of the shards."""
    folder = pathlib.Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.glob("*.safetensors"):
        old.unlink()
    (folder / "config.json").write_text(config_file.dump(config), encoding="utf-8")
    compressed.astype("<i4").tofile(folder / "engram_token_map.i32")
    tensors = official_tensors(config, params)
    shards, where, total = _shards(tensors), {}, 0
    for number, names in enumerate(shards, 1):
        file = f"model-{number:05d}-of-{len(shards):05d}.safetensors"
        total += storage.write(folder / file, {name: tensors[name] for name in names})
        where.update({name: file for name in names})
    index = {"metadata": {"total_size": total}, "weight_map": where}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index, indent=1) + "\n", encoding="utf-8")
    return total
