"""Hunyuan V4: gated latent attention with sinks and an indexer, experts, hyper-connections."""

from trainfit.architectures.config import Config
from trainfit.architectures.decoder import gated_mlp, layer_count, pre_norm_decoder, rms
from trainfit.architectures.experts import deepseek_experts
from trainfit.architectures.hyper_connections import hyper_connection, hyper_head
from trainfit.architectures.latent import latent_attention, lightning_indexer
from trainfit.architectures.layer_patterns import first_dense, indexer_types, mlp_types
from trainfit.specs.architecture import ModelSpec
from trainfit.specs.blocks import Block, Bucket

_HY_V4 = {
    "vocab_size": 120832,
    "hidden_size": 2816,
    "intermediate_size": 6912,
    "moe_intermediate_size": 768,
    "num_hidden_layers": 34,
    "num_attention_heads": 32,
    "q_lora_rank": 1536,
    "kv_lora_rank": 512,
    "qk_nope_head_dim": 192,
    "qk_rope_head_dim": 64,
    "v_head_dim": 256,
    "n_routed_experts": 256,
    "n_shared_experts": 1,
    "num_experts_per_tok": 8,
    "index_n_heads": 16,
    "index_head_dim": 128,
    "hc_mult": 4,
}


def _attention(config: Config, kind: str) -> Block:
    """Every head's output passes a gate as wide as its values."""
    return latent_attention(
        config,
        gate_width=config.int("num_attention_heads") * config.int("v_head_dim"),
        sinks=True,
        indexer=lightning_indexer(config) if kind == "full" else None,
    )


def hy_v4(config: Config) -> ModelSpec:
    config = config.with_defaults(_HY_V4, num_local_experts="n_routed_experts")
    total, hidden = layer_count(config), config.int("hidden_size")
    streams = config.int("hc_mult")

    def mixed(block: Block, bucket: Bucket) -> tuple[Block, ...]:
        mixing = hyper_connection(bucket, hidden, streams, mixes=2 * streams, scales=2)
        return block, mixing

    mlps = {
        "dense": mixed(gated_mlp(config), "dense_mlp"),
        "sparse": mixed(deepseek_experts(config), "dense_mlp"),
    }
    full = ["shared" if index and (index - 1) % 4 else "full" for index in range(total)]
    return pre_norm_decoder(
        config,
        rms(hidden),
        [
            mixed(_attention(config, each), "attention")
            for each in indexer_types(config, "indexer_types", full)
        ],
        [mlps[each] for each in mlp_types(config, first_dense(total, 1))],
        extras=(hyper_head(hidden, streams),),
        residual_streams=streams,
    )


PARSERS = {"hy_v4": hy_v4}
