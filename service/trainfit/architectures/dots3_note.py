"""dots3-note's text decoder: gated latent attention, with a window or behind an indexer."""

from collections.abc import Sequence

from trainfit.architectures.config import Config
from trainfit.architectures.decoder import gated_mlp, layer_count, pre_norm_decoder, rms
from trainfit.architectures.experts import routed_experts
from trainfit.architectures.latent import latent_attention, lightning_indexer
from trainfit.architectures.layer_patterns import attention_types, flags, mlp_types
from trainfit.architectures.weights import opaque, weight
from trainfit.specs.architecture import ModelSpec
from trainfit.specs.blocks import Block

_DOTS3 = {
    "vocab_size": 152064,
    "hidden_size": 5120,
    "intermediate_size": 13824,
    "moe_intermediate_size": 1536,
    "shared_experts_intermediate_size": 1536,
    "num_hidden_layers": 46,
    "num_attention_heads": 128,
    "q_lora_rank": 1024,
    "kv_lora_rank": 512,
    "qk_nope_head_dim": 128,
    "qk_rope_head_dim": 64,
    "v_head_dim": 128,
    "n_routed_experts": 256,
    "n_shared_experts": 1,
    "num_experts_per_tok": 8,
    "index_n_heads": 64,
    "index_head_dim": 128,
    "sliding_window": None,
}
_SLIDING = {
    "num_attention_heads": 64,
    "q_lora_rank": 1024,
    "kv_lora_rank": 1024,
    "qk_nope_head_dim": 192,
    "v_head_dim": 128,
}
"""Dimensions of the layers with a window, under these keys after `swa_`."""

SLIDING, FULL, INDEXED = "sliding_attention", "full_attention", "indexed_attention"


def _sliding(config: Config) -> Config:
    """The config as the layers with a window see it."""
    own = {key: config.int(f"swa_{key}", default) for key, default in _SLIDING.items()}
    rope = config.int("swa_head_dim", 256) - own["qk_nope_head_dim"]
    own["qk_rope_head_dim"] = config.int("swa_qk_rope_head_dim", rope)
    return Config({**config.values, **own}, config.path)


def _window(config: Config) -> int:
    window = config.optional_int("sliding_window")
    return config.int("sliding_window_size", 512) if window is None else window


def _attention(config: Config, kind: str) -> tuple[Block, ...]:
    """A gate a head on the output, a norm on the rotary part of the keys."""
    seen = _sliding(config) if kind == SLIDING else config
    attention = latent_attention(
        seen,
        gate_width=seen.int("num_attention_heads"),
        window=_window(config) if kind == SLIDING else None,
        indexer=lightning_indexer(config) if kind == INDEXED else None,
    )
    return attention, opaque("rope_key_norm", "norm", weight("norm", attention.qk_rope_head_dim))


def _attention_kinds(config: Config, total: int) -> list[str]:
    """Three of four layers with a window; an indexer in the others unless `use_dsa` is false."""
    slides = config.bool("use_sliding_window", True)
    default = [
        SLIDING if slides and index >= 2 and index % 4 != 1 else FULL for index in range(total)
    ]
    unbounded = INDEXED if config.bool("use_dsa", True) else FULL
    kinds = attention_types(config, default, (SLIDING, FULL, INDEXED))
    return [each if each == SLIDING else unbounded for each in kinds]


def _mlp_kinds(config: Config, total: int) -> Sequence[str]:
    """`moe_layer_freq` is a stride, or one flag for each layer."""
    first = config.int("first_k_dense_replace", 1)
    if isinstance(config.get("moe_layer_freq"), list | tuple):
        sparse = flags(config, "moe_layer_freq", total)
    else:
        every = config.int("moe_layer_freq", 1)
        sparse = [index % every == 0 for index in range(total)]
    return mlp_types(
        config,
        ["sparse" if is_sparse and i >= first else "dense" for i, is_sparse in enumerate(sparse)],
    )


def dots3_note_text(config: Config) -> ModelSpec:
    config = config.with_defaults(
        _DOTS3,
        num_local_experts="n_routed_experts",
        moe_shared_expert_intermediate_size="shared_experts_intermediate_size",
    )
    total = layer_count(config)
    shared = config.int("shared_experts_intermediate_size") * config.int("n_shared_experts")
    experts = routed_experts(config, "n_routed_experts", "moe_intermediate_size", shared_ffn=shared)
    mlps: dict[str, Block] = {"dense": gated_mlp(config), "sparse": experts}
    return pre_norm_decoder(
        config,
        rms(config.int("hidden_size")),
        [_attention(config, each) for each in _attention_kinds(config, total)],
        [mlps[each] for each in _mlp_kinds(config, total)],
    )


PARSERS = {"dots3_note_text": dots3_note_text}
