"""Mistral Large 4: latent attention that some layers share, and DeepSeek's experts."""

from collections.abc import Sequence

from trainfit.architectures.config import Config
from trainfit.architectures.decoder import gated_mlp, layer_count, pre_norm_decoder, rms
from trainfit.architectures.experts import deepseek_experts
from trainfit.architectures.layer_patterns import (
    first_dense,
    mlp_types,
    patterned_indexer_types,
    per_layer,
)
from trainfit.architectures.weights import opaque, weight
from trainfit.specs.architecture import ModelSpec
from trainfit.specs.blocks import Block, Indexer, LatentAttention

_MISTRAL_LARGE4 = {
    "vocab_size": 204800,
    "hidden_size": 6144,
    "intermediate_size": 24576,
    "moe_intermediate_size": 6144,
    "num_hidden_layers": 72,
    "num_attention_heads": 64,
    "kv_lora_rank": 512,
    "qk_nope_head_dim": 64,
    "qk_rope_head_dim": 64,
    "v_head_dim": 128,
    "n_routed_experts": 128,
    "n_shared_experts": 1,
    "num_experts_per_tok": 4,
    "index_n_heads": 32,
    "index_head_dim": 128,
}


def _attention(
    config: Config, *, rope: bool, indexed: bool, owns_latent: bool
) -> tuple[Block, ...]:
    """MLA without a query latent, each head's softmax scaled and shifted by learned numbers.

    Where positions are not rotary, all features of queries and keys come from the latent.
    """
    heads, rotary = config.int("num_attention_heads"), config.int("qk_rope_head_dim")
    bias = config.bool("attention_bias", False)
    index_heads, index_width = config.int("index_n_heads"), config.int("index_head_dim")
    attention = LatentAttention(
        heads=heads,
        q_lora_rank=None,
        kv_lora_rank=config.int("kv_lora_rank"),
        qk_nope_head_dim=config.int("qk_nope_head_dim") + (0 if rope else rotary),
        qk_rope_head_dim=rotary if rope else 0,
        v_head_dim=config.int("v_head_dim"),
        down_bias=bias and owns_latent,
        out_bias=bias,
        owns_kv_latent=owns_latent,
        indexer=Indexer(heads=index_heads, head_dim=index_width) if indexed else None,
    )
    scaling = opaque("softmax_scaling", "attention", weight("scale", 2, heads))
    if not indexed:
        return attention, scaling
    query_norm = weight("q_input_norm", 2, config.int("hidden_size"), bucket="norm")
    return (
        attention,
        scaling,
        opaque("indexer_scaling", "attention", weight("scale", 2, index_heads), query_norm),
    )


def _by_layer(config: Config, key: str, default: list[int]) -> Sequence[int]:
    return default if config.get(key) is None else per_layer(config, key, len(default))


def mistral_large4_text(config: Config) -> ModelSpec:
    """`no_rope_layers` is 1 where positions are rotary; `kv_source_layers` whose latent is used."""
    config = config.with_defaults(
        _MISTRAL_LARGE4, num_local_experts="n_routed_experts", num_experts="n_routed_experts"
    )
    total = layer_count(config)
    every = config.int("no_rope_layer_interval", 4)
    rotary = [int((index + 1) % every != 0) for index in range(total)]
    ropes = _by_layer(config, "no_rope_layers", rotary)
    sources = _by_layer(config, "kv_source_layers", list(range(total)))
    indexers = patterned_indexer_types(config, total)
    mlps: dict[str, Block] = {"dense": gated_mlp(config), "sparse": deepseek_experts(config)}
    types = mlp_types(config, first_dense(total, config.int("first_k_dense_replace", 1)))
    attentions = [
        _attention(config, rope=bool(rope), indexed=indexer == "full", owns_latent=source == index)
        for index, (rope, indexer, source) in enumerate(zip(ropes, indexers, sources, strict=True))
    ]
    norm = rms(config.int("hidden_size"))
    return pre_norm_decoder(config, norm, attentions, [mlps[each] for each in types])


PARSERS = {"mistral_large4_text": mistral_large4_text}
