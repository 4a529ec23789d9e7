"""DeepSeek up to V3.2: dense first layers, then routed and shared experts."""

from trainfit.architectures.config import Config
from trainfit.architectures.decoder import (
    gated_mlp,
    grouped_query_attention,
    layer_count,
    pre_norm_decoder,
    rms,
)
from trainfit.architectures.experts import deepseek_experts
from trainfit.architectures.latent import latent_attention, lightning_indexer
from trainfit.architectures.layer_patterns import first_dense, mlp_types
from trainfit.specs.architecture import ModelSpec
from trainfit.specs.blocks import Block, Experts, Mlp

_V2 = {
    "vocab_size": 102400,
    "hidden_size": 4096,
    "intermediate_size": 11008,
    "moe_intermediate_size": 1407,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "q_lora_rank": 1536,
    "kv_lora_rank": 512,
    "qk_nope_head_dim": 128,
    "qk_rope_head_dim": 64,
    "v_head_dim": 128,
    "n_routed_experts": 64,
    "n_shared_experts": 2,
    "first_k_dense_replace": 0,
}

_V3 = {
    "vocab_size": 129280,
    "hidden_size": 7168,
    "intermediate_size": 18432,
    "moe_intermediate_size": 2048,
    "num_hidden_layers": 61,
    "num_attention_heads": 128,
    "q_lora_rank": 1536,
    "kv_lora_rank": 512,
    "qk_nope_head_dim": 128,
    "qk_rope_head_dim": 64,
    "v_head_dim": 128,
    "n_routed_experts": 256,
    "n_shared_experts": 1,
    "num_experts_per_tok": 8,
    "first_k_dense_replace": 3,
}


_V32 = {**_V3, "index_n_heads": 64, "index_head_dim": 128}


def deepseek(config: Config) -> ModelSpec:
    """DeepSeek MoE: plain attention; without `n_routed_experts` every layer is dense."""
    bias = config.bool("attention_bias", False)
    attention = grouped_query_attention(config, qkv_bias=bias, out_bias=bias)
    total = layer_count(config)
    dense: Block = gated_mlp(config)
    sparse = dense if config.get("n_routed_experts") is None else deepseek_experts(config)
    first, every = config.int("first_k_dense_replace", 0), config.int("moe_layer_freq", 1)
    mlps = [sparse if index >= first and index % every == 0 else dense for index in range(total)]
    return pre_norm_decoder(config, rms(config.int("hidden_size")), [attention] * total, mlps)


def latent_decoder(config: Config, mlp: Mlp, experts: Experts) -> ModelSpec:
    """MLA in every layer, experts past the first `first_k_dense_replace`; sizes are filled in."""
    total = layer_count(config)
    first = config.int("first_k_dense_replace")
    return pre_norm_decoder(
        config,
        rms(config.int("hidden_size")),
        [latent_attention(config)] * total,
        [mlp if index < first else experts for index in range(total)],
    )


def deepseek_v2(config: Config) -> ModelSpec:
    config = config.with_defaults(_V2, num_experts="n_routed_experts")
    bias = config.bool("mlp_bias", False)
    return latent_decoder(
        config, gated_mlp(config, bias=bias), deepseek_experts(config, shared_bias=bias)
    )


def deepseek_v3(config: Config) -> ModelSpec:
    config = config.with_defaults(_V3, num_local_experts="n_routed_experts")
    return latent_decoder(config, gated_mlp(config), deepseek_experts(config))


def deepseek_v32(config: Config) -> ModelSpec:
    """V3 with an indexer, which reads the query latent, in every layer."""
    config = config.with_defaults(
        _V32, num_local_experts="n_routed_experts", num_experts="n_routed_experts"
    )
    total = layer_count(config)
    attention = latent_attention(config, indexer=lightning_indexer(config))
    mlps: dict[str, Block] = {"dense": gated_mlp(config), "sparse": deepseek_experts(config)}
    types = mlp_types(config, first_dense(total, config.int("first_k_dense_replace")))
    norm = rms(config.int("hidden_size"))
    return pre_norm_decoder(config, norm, [attention] * total, [mlps[each] for each in types])


PARSERS = {
    "deepseek": deepseek,
    "deepseek_v2": deepseek_v2,
    "deepseek_v3": deepseek_v3,
    "deepseek_v32": deepseek_v32,
    "kimi_k2": deepseek_v3,
}
