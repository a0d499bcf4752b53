"""Every weight of the model: shape, storage kind, official name, initial value.

Weights of the same role are stacked over layers ([L, ...]) so that quantising and optimising touch few large tensors;
`View` hands single layers to the network. Owns the mapping between stacks and official tensor names, in both directions.
"""
import dataclasses
import functools
import math
import pathlib

import torch

from . import engram_hash, formats, storage


@dataclasses.dataclass(frozen=True)
class Spec:
    """One stacked weight. kind: f8 (32x32 blocks), fp4 (rows of 32), rows (Engram table), bf16, f32."""
    key: str
    name: str  # official name; {i} layer, {e} expert
    layers: tuple  # layers of the stack, () = a single tensor
    shape: tuple  # without the layer axis; experts first where experts > 0
    kind: str
    init: str  # a standard deviation as a multiple of fan_in^-0.5 ("fan:1"), "std:x", "value:x", or "hc"
    experts: int = 0

    def names(self):
        """Official names in the order of the flattened stack."""
        for i in self.layers or (None,):
            for e in range(self.experts) if self.experts else (None,):
                yield self.name.format(i=i, e=e)

    @property
    def full_shape(self):
        lead = (len(self.layers),) if self.layers else ()
        return lead + ((self.experts,) if self.experts else ()) + self.shape


def _block(prefix, stem, layers, config, experts):
    """The weights that every layer has, backbone or draft."""
    d, h, hd = config.hidden_size, config.num_attention_heads, config.head_dim
    q, g, o, inter, c = config.q_lora_rank, config.o_groups, config.o_lora_rank, config.moe_intermediate_size, config.hc_mult
    mixes = (2 + c) * c
    table = []
    for site in ("attn", "ffn"):
        table += [(f"{site}_norm", f"{site}_norm.weight", (d,), "bf16", "value:1"),
                  (f"hc_{site}_fn", f"hc_{site}_fn", (mixes, c * d), "f32", "std:0.02"),
                  (f"hc_{site}_base", f"hc_{site}_base", (mixes,), "f32", "hc"),
                  (f"hc_{site}_scale", f"hc_{site}_scale", (3,), "f32", "value:0.3")]
    table += [
        ("sink", "attn.attn_sink", (h,), "f32", "value:0"),
        ("wq_a", "attn.wq_a.weight", (q, d), "f8", "fan:1"),
        ("q_norm", "attn.q_norm.weight", (q,), "bf16", "value:1"),
        ("wq_b", "attn.wq_b.weight", (h * hd, q), "f8", "fan:1"),
        ("wkv", "attn.wkv.weight", (hd, d), "f8", "fan:1"),
        ("kv_norm", "attn.kv_norm.weight", (hd,), "bf16", "value:1"),
        ("wo_a", "attn.wo_a.weight", (g * o, h * hd // g), "f8", "fan:1"),
        ("wo_b", "attn.wo_b.weight", (d, g * o), "f8", "fan:0.2"),
        ("gate", "ffn.gate.weight", (experts, d), "bf16", "fan:1"),
        ("gate_bias", "ffn.gate.bias", (experts,), "f32", "value:0"),
        ("s1", "ffn.shared_experts.w1.weight", (inter, d), "f8", "fan:1"),
        ("s3", "ffn.shared_experts.w3.weight", (inter, d), "f8", "fan:1"),
        ("s2", "ffn.shared_experts.w2.weight", (d, inter), "f8", "fan:0.2"),
    ]
    specs = [Spec(stem + key, prefix + name, layers, shape, kind, init) for key, name, shape, kind, init in table]
    for key, shape, init in (("w1", (inter, d), "fan:1"), ("w3", (inter, d), "fan:1"), ("w2", (d, inter), "fan:0.2")):
        specs.append(Spec(stem + key, prefix + "ffn.experts.{e}." + key + ".weight", layers, shape, "fp4", init, experts))
    return specs


def _long_range(config):
    """Compressors, indexers and Engram: weights that only some layers have."""
    d, hd, q, idx = config.hidden_size, config.head_dim, config.q_lora_rank, config.index_head_dim
    sources, scorers = config.kv_source_layer_ids, config.index_source_layer_ids
    pairs = tuple(i for i in sources if config.ratio(i) == 2)
    p = "layers.{i}.attn."
    specs = [
        Spec("comp_wkv", p + "compressor.wkv.weight", sources, (hd, d), "bf16", "fan:1"),
        Spec("comp_wgate", p + "compressor.wgate.weight", pairs, (hd, d), "bf16", "fan:1"),
        Spec("comp_norm", p + "compressor.norm.weight", sources, (hd,), "bf16", "value:1"),
        Spec("iq_b", p + "indexer.wq_b.weight", scorers, (config.index_n_heads * idx, q), "f8", "fan:1"),
        Spec("iw", p + "indexer.weights_proj.weight", scorers, (config.index_n_heads, d), "bf16", "fan:1"),
        Spec("ik", p + "indexer.wk.weight", sources, (idx, hd), "bf16", "fan:1"),
        Spec("ik_norm", p + "indexer.k_norm.weight", sources, (idx,), "bf16", "value:1"),
    ]
    e, layers, c = "layers.{i}.engram.", config.engram_layer_ids, config.hc_mult
    width = config.engram_columns * config.engram_head_dim
    specs += [
        Spec("engram_wkv", e + "wkv.weight", layers, ((c + 1) * d, width), "f8", "fan:0.3"),
        Spec("engram_q", e + "q_weight", layers, (c, d), "bf16", "value:1"),
        Spec("engram_k", e + "k_weight", layers, (c, d), "bf16", "value:1"),
    ]
    for layer, rows in zip(layers, engram_hash.row_counts(config)):
        name = f"layers.{layer}.engram.embed.weight"
        specs.append(Spec(f"engram_table_{layer}", name, (), (rows, config.engram_head_dim), "rows", "std:0.5"))
    return specs


def _draft(config):
    d, v, rank = config.hidden_size, config.vocab_size, config.dspark_markov_rank
    stages = tuple(range(config.num_nextn_predict_layers))
    last, taps = stages[-1], len(config.dspark_target_layer_ids)
    return _block("mtp.{i}.", "mtp/", stages, config, config.dspark_n_routed_experts) + [
        Spec("mtp/main_proj", "mtp.0.main_proj.weight", (), (d, taps * d), "f8", "fan:1"),
        Spec("mtp/main_norm", "mtp.0.main_norm.weight", (), (d,), "bf16", "value:1"),
        Spec("mtp/norm", f"mtp.{last}.norm.weight", (), (d,), "bf16", "value:1"),
        Spec("mtp/markov_embed", f"mtp.{last}.markov_head.embed.weight", (), (v, rank), "bf16", "std:0.1"),
        Spec("mtp/markov_head", f"mtp.{last}.markov_head.head.weight", (), (v, rank), "bf16", "std:0.1"),
        Spec("mtp/confidence", f"mtp.{last}.confidence_head.proj.weight", (), (1, d + rank), "bf16", "std:0.01"),
    ]


@functools.lru_cache(maxsize=None)
def specs(config):
    """The whole inventory except `gate.bias_vl`, which text does not use (export writes zeros)."""
    d, v = config.hidden_size, config.vocab_size
    layers = tuple(range(config.num_hidden_layers))
    head = [
        Spec("embed", "embed.weight", (), (v, d), "bf16", "std:1"),
        Spec("norm", "norm.weight", (), (d,), "bf16", "value:1"),
        Spec("head", "head.weight", (), (v, d), "bf16", "fan:0.3"),
    ]
    return head + _block("layers.{i}.", "", layers, config, config.n_routed_experts) + _long_range(config) + _draft(config)


def _hc_base(spec, generator):
    """pre near 1/4 for each stream, post near 1, A near the identity, slightly different for each stream."""
    base = torch.randn(spec.full_shape, generator=generator) * 0.2
    c = int(math.isqrt(spec.shape[0] + 1)) - 1
    base[..., :c] -= 1.1
    base[..., 2 * c:] += (torch.eye(c) * 3.0).flatten()
    return base


def initial(spec, generator):
    """The FP32 master value before training."""
    how, _, value = spec.init.partition(":")
    if how == "value":
        return torch.full(spec.full_shape, float(value))
    if how == "hc":
        return _hc_base(spec, generator)
    scale = float(value) * (spec.shape[-1] ** -0.5 if how == "fan" else 1.0)
    return torch.randn(spec.full_shape, generator=generator) * scale


def initialise(config, seed):
    """key -> FP32 master tensor."""
    generator = torch.Generator().manual_seed(seed)
    return {spec.key: initial(spec, generator) for spec in specs(config)}


STORED = {
    "f8": formats.fp8_weight,
    "fp4": formats.fp4_weight,
    "rows": formats.fp8_rows,
    "bf16": lambda w: w.to(torch.bfloat16).float(),
    "f32": lambda w: w,
}


def load(config, folder):
    """Dequantised FP32 stacks of a checkpoint folder in the official format."""
    tensors = {}
    for path in sorted(pathlib.Path(folder).glob("*.safetensors")):
        tensors.update(storage.read(path))
    values = {}
    for spec in specs(config):
        parts = [_dequantised(tensors, name, spec.kind) for name in spec.names()]
        values[spec.key] = torch.stack(parts).reshape(spec.full_shape)
    return values


def _dequantised(tensors, name, kind):
    value = tensors[name][1]
    if kind in ("f8", "rows"):
        return formats.dequantise_fp8(value, tensors[name.replace(".weight", ".scale")][1])
    if kind == "fp4":
        return formats.dequantise_fp4(value, tensors[name.replace(".weight", ".scale")][1])
    return value.float()


class View:
    """Single layers and tables out of the stacks. `values` are the weights as the forward pass should see them."""

    def __init__(self, config, values, stem="", quantise_rows=None):
        self.config, self.values, self.quantise_rows = config, values, quantise_rows
        self.per_layer = {}
        for spec in specs(config):
            if not spec.layers or spec.key.startswith("mtp/") != (stem == "mtp/"):
                continue
            for layer, value in zip(spec.layers, values[spec.key].unbind(0)):
                self.per_layer.setdefault(layer, {})[spec.key[len(stem):]] = value

    def layer(self, i):
        return self.per_layer[i]

    def get(self, key):
        return self.values[key]

    def lookup(self, key, ids):
        """Rows of a BF16 table, gathered from the master and rounded after the gather."""
        return torch.nn.functional.embedding(ids, self.values[key])

    def rows(self, which, rows):
        """Engram rows [..., columns, head_dim] of the which-th Engram layer."""
        gathered = torch.nn.functional.embedding(rows, self.values[f"engram_table_{self.config.engram_layer_ids[which]}"])
        return gathered if self.quantise_rows is None else self.quantise_rows(gathered)
