"""GLM-4.5 and the types of its shape: biased or normed queries and keys, DeepSeek's experts."""

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
from trainfit.architectures.layer_patterns import (
    first_dense,
    mlp_types,
    patterned_indexer_types,
)
from trainfit.specs.architecture import ModelSpec
from trainfit.specs.blocks import Block

_GLM4 = {
    "vocab_size": 151552,
    "hidden_size": 4096,
    "intermediate_size": 10944,
    "moe_intermediate_size": 1408,
    "num_hidden_layers": 46,
    "num_attention_heads": 96,
    "num_key_value_heads": 8,
    "n_routed_experts": 128,
    "n_shared_experts": 1,
    "num_experts_per_tok": 8,
}
_GLM4_LITE = {
    "vocab_size": 154880,
    "hidden_size": 2048,
    "intermediate_size": 10240,
    "moe_intermediate_size": 1536,
    "num_hidden_layers": 47,
    "num_attention_heads": 20,
    "q_lora_rank": 768,
    "kv_lora_rank": 512,
    "qk_nope_head_dim": 192,
    "qk_rope_head_dim": 64,
    "v_head_dim": 256,
    "n_routed_experts": 64,
    "n_shared_experts": 1,
    "num_experts_per_tok": 4,
}
_GLM5 = {
    "vocab_size": 154880,
    "hidden_size": 6144,
    "intermediate_size": 12288,
    "moe_intermediate_size": 2048,
    "num_hidden_layers": 78,
    "num_attention_heads": 64,
    "q_lora_rank": 2048,
    "kv_lora_rank": 512,
    "qk_nope_head_dim": 192,
    "qk_rope_head_dim": 64,
    "v_head_dim": 256,
    "n_routed_experts": 256,
    "n_shared_experts": 1,
    "num_experts_per_tok": 8,
    "index_n_heads": 32,
    "index_head_dim": 128,
}
_SOLAR = {
    "vocab_size": 196608,
    "hidden_size": 4096,
    "moe_intermediate_size": 1280,
    "num_hidden_layers": 48,
    "num_attention_heads": 64,
    "num_key_value_heads": 8,
    "head_dim": 128,
    "n_routed_experts": 128,
    "n_shared_experts": 1,
    "num_experts_per_tok": 8,
}


def glm4_moe(config: Config) -> ModelSpec:
    config = config.with_defaults(_GLM4, num_local_experts="n_routed_experts")
    total = layer_count(config)
    attention = grouped_query_attention(
        config,
        qkv_bias=config.bool("attention_bias", False),
        qk_norm="head" if config.bool("use_qk_norm", False) else None,
    )
    mlp, experts = gated_mlp(config), deepseek_experts(config)
    first = config.int("first_k_dense_replace", 1)
    return pre_norm_decoder(
        config,
        rms(config.int("hidden_size")),
        [attention] * total,
        [mlp if index < first else experts for index in range(total)],
    )


def glm4_moe_lite(config: Config) -> ModelSpec:
    config = config.with_defaults(
        _GLM4_LITE, num_local_experts="n_routed_experts", head_dim="qk_rope_head_dim"
    )
    total = layer_count(config)
    mlps: dict[str, Block] = {"dense": gated_mlp(config), "sparse": deepseek_experts(config)}
    types = mlp_types(config, first_dense(total, 1))
    return pre_norm_decoder(
        config,
        rms(config.int("hidden_size")),
        [latent_attention(config)] * total,
        [mlps[each] for each in types],
    )


def glm_moe_dsa(config: Config) -> ModelSpec:
    config = config.with_defaults(
        _GLM5, num_local_experts="n_routed_experts", num_experts="n_routed_experts"
    )
    total = layer_count(config)
    attentions = {
        "full": latent_attention(config, indexer=lightning_indexer(config)),
        "shared": latent_attention(config),
    }
    mlps: dict[str, Block] = {"dense": gated_mlp(config), "sparse": deepseek_experts(config)}
    types = mlp_types(config, first_dense(total, config.int("first_k_dense_replace", 3)))
    return pre_norm_decoder(
        config,
        rms(config.int("hidden_size")),
        [attentions[each] for each in patterned_indexer_types(config, total)],
        [mlps[each] for each in types],
    )


def solar_open(config: Config) -> ModelSpec:
    config = config.with_defaults(_SOLAR, num_local_experts="n_routed_experts")
    total = layer_count(config)
    attention = grouped_query_attention(config, qkv_bias=config.bool("attention_bias", False))
    return pre_norm_decoder(
        config,
        rms(config.int("hidden_size")),
        [attention] * total,
        [deepseek_experts(config)] * total,
    )


PARSERS = {
    "glm4_moe": glm4_moe,
    "glm4_moe_lite": glm4_moe_lite,
    "glm_moe_dsa": glm_moe_dsa,
    "solar_open": solar_open,
}
