"""Step 3.7: gated attention, more heads where it slides, experts past the first layers."""

from collections.abc import Sequence
from typing import Literal

from trainfit.architectures.composite import composite, own_text_spec, section
from trainfit.architectures.config import Config
from trainfit.architectures.decoder import (
    gated_mlp,
    grouped_query_attention,
    layer_count,
    pre_norm_decoder,
    rms,
)
from trainfit.architectures.encoders.layers import (
    Tower,
    convolution,
    count,
    layer_norm,
    linear,
    patch_pixels,
    patches,
    scaled,
    size,
    transformer_layer,
)
from trainfit.architectures.experts import routed_experts
from trainfit.architectures.layer_patterns import attention_types, mlp_types
from trainfit.specs.architecture import ModelSpec
from trainfit.specs.blocks import Attention, Block

_STEP3P5 = {
    "vocab_size": 128815,
    "hidden_size": 4096,
    "intermediate_size": 11264,
    "moe_intermediate_size": 1280,
    "share_expert_dim": 1280,
    "num_hidden_layers": 45,
    "num_attention_heads": 64,
    "num_key_value_heads": 8,
    "head_dim": 128,
    "n_routed_experts": 288,
    "num_experts_per_tok": 8,
}
_PUBLISHED_NAMES = {
    "num_attention_groups": "num_key_value_heads",
    "moe_num_experts": "n_routed_experts",
    "moe_top_k": "num_experts_per_tok",
    "share_expert_dims": "share_expert_dim",
}


def step3p5(config: Config) -> ModelSpec:
    config = config.with_defaults(_STEP3P5, **_PUBLISHED_NAMES)
    total = layer_count(config)
    sliding = Config({**config.values, "num_attention_heads": _sliding_heads(config)}, config.path)
    attentions = {
        "full_attention": _attention(config),
        "sliding_attention": _attention(sliding, config.optional_int("sliding_window")),
    }
    bias = config.bool("mlp_bias", False)
    experts = routed_experts(
        config,
        "n_routed_experts",
        "moe_intermediate_size",
        shared_ffn=config.int("share_expert_dim"),
        shared_bias=bias,
    )
    mlps: dict[str, Block] = {"dense": gated_mlp(config, bias=bias), "sparse": experts}
    return pre_norm_decoder(
        config,
        rms(config.int("hidden_size")),
        [attentions[each] for each in attention_types(config, ["full_attention"] * total)],
        [mlps[each] for each in mlp_types(config, _listed_experts(config, total))],
    )


def step3p7(config: Config) -> ModelSpec:
    features = step3p7_vision(section(config, "vision_config"))
    text = own_text_spec(config, "step3p5")
    bias = config.bool("projector_bias", False)
    projector = linear(features.width, text.hidden_size, bias=bias)
    return composite(config, text, features.parameters + projector)


def step3p7_vision(config: Config) -> Tower:
    """Layer scales; two strided convolutions each double the channels.

    The feed-forward is `mlp_ratio` wide, whatever `intermediate_size` says.
    """
    config = config.with_defaults({}, width="hidden_size", layers="num_hidden_layers")
    width = size(config, "hidden_size", 1536)
    scales = 2 * width
    layer = transformer_layer(width, scaled(config, width, "mlp_ratio", 8960 / 1536)) + scales
    return Tower(
        4 * width,
        linear(patch_pixels(config, 14), width, bias=False)
        + patches(config, 728, 14) * width
        + layer_norm(width)
        + count(config, "num_hidden_layers", 47) * layer
        + convolution(width, 2 * width, 3, 3)
        + convolution(2 * width, 4 * width, 3, 3),
    )


def _attention(config: Config, window: int | None = None) -> Attention:
    bias = config.bool("attention_bias", False)
    return grouped_query_attention(
        config, qkv_bias=bias, out_bias=bias, qk_norm="head", gate=_gate(config), window=window
    )


def _gate(config: Config) -> Literal["feature", "head"]:
    """By head where `gating` is true or says so, by feature for anything else."""
    return "head" if config.get("gating", True) in (True, "per-head") else "feature"


def _sliding_heads(config: Config) -> int:
    """Heads of sliding layers, of their own key or of the published dictionary."""
    heads = config.optional_int("num_sliding_attention_heads")
    if heads is None and config.get("attention_other_setting"):
        heads = config.section("attention_other_setting").optional_int("num_attention_heads")
    return config.int("num_attention_heads") if heads is None else heads


def _listed_experts(config: Config, total: int) -> Sequence[str]:
    """The layers that `moe_layers_enum` lists have experts; without it all but the first three."""
    value = config.get("moe_layers_enum")
    if value is None:
        return ["sparse" if index >= 3 else "dense" for index in range(total)]
    items = value.split(",") if isinstance(value, str) else config.list("moe_layers_enum")
    numbers = {str(item).strip() for item in items}
    return ["sparse" if str(index) in numbers else "dense" for index in range(total)]


PARSERS = {"step3p5": step3p5, "step3p7": step3p7}
