"""GLM-5: DeepSeek's layer, whose indexer some layers share."""

from trainfit.architectures.config import Config
from trainfit.architectures.decoder import (
    gated_mlp,
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


PARSERS = {"glm_moe_dsa": glm_moe_dsa}
