"""GLM-5-Next's text decoder: Kimi Delta Attention, indexed MLA, experts, hyper-connections."""

from trainfit.architectures.config import Config
from trainfit.architectures.decoder import gated_mlp, layer_count, pre_norm_decoder, rms
from trainfit.architectures.delta_net import kimi_delta_attention
from trainfit.architectures.experts import deepseek_experts
from trainfit.architectures.hyper_connections import hyper_connection
from trainfit.architectures.latent import latent_attention, lightning_indexer
from trainfit.architectures.layer_patterns import (
    attention_types,
    first_dense,
    mlp_types,
    patterned_indexer_types,
)
from trainfit.architectures.weights import opaque, weight
from trainfit.specs.architecture import ModelSpec
from trainfit.specs.blocks import Block, Bucket, Recurrence

_GLM5_NEXT = {
    "vocab_size": 154880,
    "hidden_size": 4096,
    "intermediate_size": 12288,
    "moe_intermediate_size": 2048,
    "num_hidden_layers": 45,
    "num_attention_heads": 64,
    "q_lora_rank": 1536,
    "kv_lora_rank": 512,
    "qk_nope_head_dim": 256,
    "qk_rope_head_dim": 0,
    "v_head_dim": 256,
    "n_routed_experts": 288,
    "n_shared_experts": 1,
    "num_experts_per_tok": 8,
    "index_n_heads": 32,
    "index_head_dim": 128,
    "index_kpool": 16,
    "linear_head_dim": 128,
    "linear_num_heads": 64,
    "linear_conv_kernel_dim": 4,
    "hc_mult": 4,
}
LINEAR, INDEXED = "linear_attention", "indexed_attention"


def _linear_attention(config: Config) -> Recurrence:
    """`linear_attn_config`, where there is one, sizes it."""
    given = config.get("linear_attn_config") is not None
    sizes = config.section("linear_attn_config") if given else Config({}, config.path)
    return kimi_delta_attention(
        config.int("hidden_size"),
        heads=sizes.int("num_heads", config.int("linear_num_heads")),
        head_dim=sizes.int("head_dim", config.int("linear_head_dim")),
        kernel=sizes.int("short_conv_kernel_size", config.int("linear_conv_kernel_dim")),
        low_rank_gates="fg",
    )


def _indexed_attention(config: Config, indexer: str) -> tuple[Block, ...]:
    """The indexer pools its keys over `index_kpool` tokens by learned weights."""
    if indexer == "shared":
        return (latent_attention(config),)
    attention = latent_attention(config, indexer=lightning_indexer(config))
    width = config.int("index_head_dim")
    pooling = opaque(
        "key_pooling",
        "attention",
        weight("ape", config.int("index_kpool"), width),
        weight("gate", width, config.int("hidden_size")),
    )
    return attention, pooling


def _attention_kinds(config: Config, total: int) -> list[str]:
    default = [LINEAR if index % 4 != 3 else INDEXED for index in range(total)]
    kinds = attention_types(config, default, (LINEAR, INDEXED, "full_attention"))
    return [LINEAR if each == LINEAR else INDEXED for each in kinds]


def glm5_next_text(config: Config) -> ModelSpec:
    config = config.with_defaults(_GLM5_NEXT, num_local_experts="n_routed_experts")
    total, hidden = layer_count(config), config.int("hidden_size")
    streams = config.int("hc_mult")

    def mixed(bucket: Bucket, *blocks: Block) -> tuple[Block, ...]:
        mixes = (2 + streams) * streams
        return *blocks, hyper_connection(bucket, hidden, streams, mixes=mixes, scales=3)

    def attend(kind: str, indexer: str) -> tuple[Block, ...]:
        if kind == LINEAR:
            return mixed("attention", _linear_attention(config))
        return mixed("attention", *_indexed_attention(config, indexer))

    mlps = {
        "dense": mixed("dense_mlp", gated_mlp(config)),
        "sparse": mixed("dense_mlp", deepseek_experts(config)),
    }
    pairs = zip(
        _attention_kinds(config, total), patterned_indexer_types(config, total), strict=True
    )
    return pre_norm_decoder(
        config,
        rms(hidden),
        [attend(*pair) for pair in pairs],
        [mlps[each] for each in mlp_types(config, first_dense(total, 3))],
        residual_streams=streams,
    )


PARSERS = {"glm5_next_text": glm5_next_text}
