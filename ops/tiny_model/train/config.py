"""The model's dimensions and layer roles, read from and written to the official nested `config.json`.

Owns: the one description of dims that network, parameters, export and oracle share. Invariant: `Config` is
immutable and every derived role (who produces KV, who scores) follows from the lists of the file alone.
"""
import dataclasses
import json
import pathlib


@dataclasses.dataclass(frozen=True)
class Config:
    vocab_size: int = 4096
    hidden_size: int = 256
    num_hidden_layers: int = 8
    num_attention_heads: int = 4
    num_key_value_heads: int = 1
    head_dim: int = 128
    qk_rope_head_dim: int = 64
    q_lora_rank: int = 128
    o_lora_rank: int = 128
    o_groups: int = 2
    moe_intermediate_size: int = 256
    n_routed_experts: int = 8
    n_shared_experts: int = 1
    num_experts_per_tok: int = 2
    scoring_func: str = "sqrtsoftplus"
    topk_method: str = "noaux_tc"
    norm_topk_prob: bool = True
    routed_scaling_factor: float = 1.5
    swiglu_limit: float = 10.0
    hidden_act: str = "silu"
    rms_norm_eps: float = 1e-20
    hc_mult: int = 4
    hc_sinkhorn_iters: int = 20
    hc_eps: float = 1e-6
    sliding_window: int = 128
    compress_ratios: tuple = (0, 0, 2, 2, 2, 1, 1, 1, 0, 0, 0)
    kv_source_layer_ids: tuple = (2, 4, 5)
    index_source_layer_ids: tuple = (2, 4, 5, 7)
    candidate_source_layer_id: int = 5
    candidate_topk_blocks: int = 64
    candidate_block_size: int = 8
    index_n_heads: int = 8
    index_head_dim: int = 128
    index_topk: int = 256
    rope_theta: float = 10000.0
    compress_rope_theta: float = 160000.0
    rope_factor: float = 16.0
    rope_beta_fast: float = 32.0
    rope_beta_slow: float = 1.0
    rope_original_max: int = 65536
    max_position_embeddings: int = 8192
    tie_word_embeddings: bool = False
    engram_layer_ids: tuple = (1, 4)
    engram_num_embeddings: tuple = ()
    engram_max_ngram_size: int = 4
    engram_n_heads: int = 4
    engram_head_dim: int = 32
    engram_vocab_size: int = 2048
    engram_compressed_vocab_size: int = 0
    engram_pad_token_id: int = 2
    num_nextn_predict_layers: int = 3
    dspark_block_size: int = 5
    dspark_noise_token_id: int = 0
    dspark_target_layer_ids: tuple = (5, 6, 7)
    dspark_markov_rank: int = 64
    dspark_n_routed_experts: int = 4
    dspark_num_experts_per_tok: int = 2
    bos_token_id: int = 0
    eos_token_id: int = 1
    pad_token_id: int = 2
    image_token_id: int = 0

    @property
    def engram_columns(self) -> int:
        """Rows looked up per token: one for every (n-gram order, head)."""
        return (self.engram_max_ngram_size - 1) * self.engram_n_heads

    def ratio(self, layer: int) -> int:
        return self.compress_ratios[layer]


_ROPE_KEYS = {
    "factor": "rope_factor",
    "beta_fast": "rope_beta_fast",
    "beta_slow": "rope_beta_slow",
    "original_max_position_embeddings": "rope_original_max",
}
_TOP_KEYS = ("bos_token_id", "eos_token_id", "pad_token_id", "image_token_id")
QUANTIZATION = {
    "quant_method": "fp8",
    "activation_scheme": "dynamic",
    "weight_block_size": [32, 32],
    "scale_fmt": "ue8m0",
    "expert_dtype": "fp4",
}


def load(path) -> Config:
    """Reads `config.json` in the official nested shape."""
    top = json.loads(pathlib.Path(path).read_text(encoding="utf-8"))
    names = {field.name for field in dataclasses.fields(Config)}
    values = {key: value for key, value in top["text_config"].items() if key in names}
    values.update({key: top[key] for key in _TOP_KEYS if key in top})
    scaling = top["text_config"].get("rope_scaling") or {}
    values.update({ours: scaling[theirs] for theirs, ours in _ROPE_KEYS.items() if theirs in scaling})
    return Config(**{key: tuple(value) if isinstance(value, list) else value for key, value in values.items()})


def dump(config: Config) -> str:
    """The text of `config.json` in the official nested shape."""
    values = dataclasses.asdict(config)
    top = {"architectures": ["DeepseekV41ForCausalLM"], "model_type": "deepseek_v41", "dtype": "bfloat16"}
    top.update({key: values.pop(key) for key in _TOP_KEYS})
    top["quantization_config"] = QUANTIZATION
    scaling = {"rope_type": "yarn", "type": "yarn"}
    scaling.update({theirs: values.pop(ours) for theirs, ours in _ROPE_KEYS.items()})
    text = {"model_type": "deepseek_v41_text"}
    for key, value in values.items():
        text[key] = list(value) if isinstance(value, tuple) else value
        if key == "compress_rope_theta":
            text["rope_scaling"] = scaling
    top["text_config"] = text
    return json.dumps(top, indent=1) + "\n"
