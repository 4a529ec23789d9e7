"""LongCat Flash: two attentions and two MLPs a layer, experts beside the first MLP."""

from trainfit.architectures.config import Config
from trainfit.architectures.decoder import decoder, layer_count, pre_norm_layer, rms
from trainfit.architectures.latent import latent_attention
from trainfit.specs.architecture import ModelSpec
from trainfit.specs.blocks import Experts, Mlp

_LONGCAT = {
    "vocab_size": 131072,
    "hidden_size": 6144,
    "ffn_hidden_size": 12288,
    "expert_ffn_hidden_size": 2048,
    "num_layers": 28,
    "num_attention_heads": 64,
    "q_lora_rank": 1536,
    "kv_lora_rank": 512,
    "qk_nope_head_dim": 128,
    "qk_rope_head_dim": 64,
    "v_head_dim": 128,
    "n_routed_experts": 512,
    "zero_expert_num": 256,
    "moe_topk": 12,
}


def _experts(config: Config) -> Experts:
    """The router also scores identity experts, which own no weights."""
    experts = config.int("n_routed_experts")
    return Experts(
        experts=experts,
        top_k=config.int("moe_topk"),
        ffn=config.int("expert_ffn_hidden_size"),
        router_width=experts + (config.optional_int("zero_expert_num") or 0),
        router_bias=config.bool("router_bias", False),
    )


def longcat_flash(config: Config) -> ModelSpec:
    config = config.with_defaults(
        _LONGCAT,
        num_local_experts="n_routed_experts",
        num_experts_per_tok="moe_topk",
        intermediate_size="ffn_hidden_size",
        moe_intermediate_size="expert_ffn_hidden_size",
    )
    attention, norm = latent_attention(config), rms(config.int("hidden_size"))
    query_width = attention.qk_nope_head_dim + attention.qk_rope_head_dim
    if config.optional_int("qk_head_dim") not in (None, query_width):
        raise config.error("qk_head_dim", "must be qk_nope_head_dim + qk_rope_head_dim")
    mlp = Mlp(ffn=config.int("ffn_hidden_size"))
    layer = pre_norm_layer(norm, attention, (mlp, _experts(config)), attention, mlp)
    layers = [layer] * layer_count(config, "num_layers")
    return decoder(config, layers, tied=False, final_norm=norm)


PARSERS = {"longcat_flash": longcat_flash}
