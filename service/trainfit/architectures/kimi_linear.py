"""Kimi Linear, Kimi K3's text and Ling 2.5: Kimi Delta Attention, MLA now and then, experts after
dense layers.
"""

from collections.abc import Mapping, Sequence

from trainfit.architectures.config import Config
from trainfit.architectures.decoder import gated_mlp, layer_count, pre_norm_decoder, rms
from trainfit.architectures.delta_net import kimi_delta_attention
from trainfit.architectures.experts import routed_experts
from trainfit.architectures.latent import latent_attention
from trainfit.architectures.layer_patterns import (
    attention_types,
    first_dense,
    layer_numbers,
    mlp_types,
)
from trainfit.architectures.weights import linear, opaque, weight
from trainfit.specs.architecture import ModelSpec
from trainfit.specs.blocks import Block, Opaque, Recurrence

_SIZES = {
    "num_attention_heads": 32,
    "kv_lora_rank": 512,
    "q_lora_rank": None,
    "qk_rope_head_dim": 64,
    "qk_nope_head_dim": 128,
    "v_head_dim": 128,
    "num_experts_per_tok": 8,
    "n_shared_experts": 1,
}
_KIMI = {
    **_SIZES,
    "vocab_size": 163840,
    "hidden_size": 2304,
    "intermediate_size": 9216,
    "moe_intermediate_size": 1024,
    "num_hidden_layers": 27,
    "num_local_experts": 256,
    "first_k_dense_replace": 1,
    "linear_head_dim": 128,
    "linear_num_heads": 32,
    "linear_conv_kernel_dim": 4,
}
_BAILING = {
    **_SIZES,
    "vocab_size": 157184,
    "hidden_size": 2560,
    "intermediate_size": 6144,
    "moe_intermediate_size": 768,
    "num_hidden_layers": 42,
    "num_local_experts": 512,
    "first_k_dense_replace": 2,
    "head_dim": 128,
    "short_conv_kernel_size": 4,
    "layer_group_size": 6,
}
_ALIASES = {
    "model_max_length": "max_position_embeddings",
    "num_experts": "num_local_experts",
    "num_experts_per_token": "num_experts_per_tok",
    "num_shared_experts": "n_shared_experts",
}


def kimi_linear(config: Config) -> ModelSpec:
    """`linear_attn_config` sizes the linear layers and counts the layers of each kind from 1. What
    only Kimi K3 has (its modeling_kimi_linear.py) is there where its keys are: a gate of MLA's
    output, experts at a width of their own, and residuals by attention over blocks of layers.
    """
    config = config.with_defaults(_KIMI, **_ALIASES)
    sizes = config.section("linear_attn_config", {})
    gated = config.bool("mla_use_output_gate", False)
    values = config.int("num_attention_heads") * config.int("v_head_dim")
    mixer = kimi_delta_attention(
        config.int("hidden_size"),
        heads=sizes.int("num_heads", config.int("linear_num_heads")),
        head_dim=sizes.int("head_dim", config.int("linear_head_dim")),
        kernel=sizes.int("short_conv_kernel_size", config.int("linear_conv_kernel_dim")),
        low_rank_gates="f" if sizes.bool("use_full_rank_gate", False) else "fg",
    )
    default = _numbered_layers(sizes, layer_count(config))
    return _decoder(config, default, mixer, latent_attention(config, gate_width=values * gated))


def bailing_hybrid(config: Config) -> ModelSpec:
    """MLA, gated by head, ends every group of `layer_group_size` layers."""
    config = config.with_defaults(_BAILING, **_ALIASES)
    heads, group = config.int("num_attention_heads"), config.int("layer_group_size")
    mixer = kimi_delta_attention(
        config.int("hidden_size"),
        heads=config.int("linear_num_heads", heads),
        head_dim=config.int("linear_head_dim", config.int("head_dim")),
        kernel=config.int("linear_conv_kernel_dim", config.int("short_conv_kernel_size")),
        low_rank_gates="",
    )
    default = [
        "linear_attention" if (index + 1) % group else "full_attention"
        for index in range(layer_count(config))
    ]
    return _decoder(config, default, mixer, latent_attention(config, gate_width=heads))


def _numbered_layers(sizes: Config, total: int) -> Sequence[str]:
    """Every fourth layer after the first attends fully, unless both lists of layers are given."""
    if "full_attn_layers" not in sizes or "kda_layers" not in sizes:
        return ["linear_attention" if i % 4 or not i else "full_attention" for i in range(total)]
    full, delta = layer_numbers(sizes, "full_attn_layers"), layer_numbers(sizes, "kda_layers")
    if full | delta != set(range(1, total + 1)) or full & delta:
        raise sizes.error("kda_layers", f"and full_attn_layers must partition layers 1 to {total}")
    return ["full_attention" if i + 1 in full else "linear_attention" for i in range(total)]


def _decoder(
    config: Config, default: Sequence[str], recurrence: Recurrence, attention: Block
) -> ModelSpec:
    types = attention_types(config, default, ("linear_attention", "full_attention"))
    residual = _attention_residual(config)
    mlps: Mapping[str, tuple[Block, ...]] = {
        "dense": (gated_mlp(config),),
        "sparse": _experts(config),
    }
    dense = first_dense(len(types), config.int("first_k_dense_replace"))
    return pre_norm_decoder(
        config,
        rms(config.int("hidden_size")),
        [(attention if each == "full_attention" else recurrence, *residual) for each in types],
        [(*mlps[each], *residual) for each in mlp_types(config, dense)],
        tied=None,
        extras=residual,
    )


def _experts(config: Config) -> tuple[Block, ...]:
    """At the width `routed_expert_hidden_size`, if given, and normed before they leave it. The
    class that has it keeps its correction bias as a parameter.
    """
    latent = config.optional_int("routed_expert_hidden_size", None)
    experts = routed_experts(
        config,
        "num_local_experts",
        "moe_intermediate_size",
        shared_ffn=config.int("n_shared_experts") * config.int("moe_intermediate_size"),
        correction_bias=latent is not None,
    )
    if latent is None:
        return (experts,)
    experts = experts.model_copy(update={"latent": latent})
    if not config.bool("latent_moe_use_norm", False):
        return (experts,)
    return experts, opaque("norm of latent experts", "norm", weight("routed_expert_norm", latent))


def _attention_residual(config: Config) -> tuple[Opaque, ...]:
    """What weighs the sums of earlier blocks of `attn_res_block_size` layers, and of this one,
    before each sublayer and behind the last: a norm and a score of each.
    """
    if config.optional_int("attn_res_block_size", None) is None:
        return ()
    hidden = config.int("hidden_size")
    norm = weight("res_norm", hidden, bucket="norm")
    return (opaque("attention residual", "other", *linear("res_proj", 1, hidden), norm),)


PARSERS = {"bailing_hybrid": bailing_hybrid, "kimi_linear": kimi_linear}
