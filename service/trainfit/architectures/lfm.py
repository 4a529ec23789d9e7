"""LFM 2 and 3: gated short convolutions, and attention in some layers."""

from collections.abc import Sequence
from math import ceil

from trainfit.architectures.config import Config
from trainfit.architectures.decoder import (
    decoder,
    gated_mlp,
    grouped_query_attention,
    layer_count,
    pre_norm_decoder,
    pre_norm_layer,
    rms,
    sandwich_norm_layer,
)
from trainfit.architectures.layer_patterns import attention_types, layer_numbers
from trainfit.architectures.weights import depthwise_convolution, linear
from trainfit.specs.architecture import ModelSpec
from trainfit.specs.blocks import Attention, Block, Experts, Mlp, Recurrence

_LFM = {
    "vocab_size": 65536,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "conv_bias": False,
    "conv_L_cache": 3,
}
_LFM2 = {
    **_LFM,
    "hidden_size": 2560,
    "intermediate_size": 12288,
    "block_multiple_of": 256,
    "block_ffn_dim_multiplier": 1.0,
    "block_auto_adjust_ff_dim": True,
}
_LFM2_MOE = {
    **_LFM,
    "hidden_size": 2048,
    "intermediate_size": 7168,
    "moe_intermediate_size": 1792,
    "num_dense_layers": 2,
    "num_experts": 32,
    "num_experts_per_tok": 4,
}
_LFM3 = {
    **_LFM,
    "vocab_size": 128_000,
    "hidden_size": 2048,
    "intermediate_size": 7680,
    "num_hidden_layers": 24,
    "num_attention_heads": 16,
    "num_key_value_heads": 4,
    "head_dim": 128,
    "conv_L_cache": 7,
    "sliding_window": 256,
    "use_sandwich_norm": True,
    "use_attention_gate": True,
    "attention_bias": False,
}
_LAYER_TYPES = ("conv", "full_attention")


def lfm2(config: Config) -> ModelSpec:
    """Attention in all layers unless `layer_types` or `full_attn_idxs` say otherwise."""
    config = config.with_defaults(
        _LFM2, tie_embedding="tie_word_embeddings", block_ff_dim="intermediate_size"
    )
    layers = layer_count(config)
    attended = layer_numbers(config, "full_attn_idxs")
    everywhere = config.get("full_attn_idxs") is None
    types = attention_types(
        config,
        ["full_attention" if everywhere or i in attended else "conv" for i in range(layers)],
        _LAYER_TYPES,
    )
    return pre_norm_decoder(
        config,
        rms(config.int("hidden_size")),
        _mixers(config, types),
        [Mlp(ffn=_adjusted_ffn(config))] * layers,
        tied=True,
    )


def lfm2_moe(config: Config) -> ModelSpec:
    """Experts after the first `num_dense_layers`; their correction bias is a buffer."""
    config = config.with_defaults(_LFM2_MOE, tie_embedding="tie_word_embeddings")
    layers, dense = layer_count(config), config.int("num_dense_layers")
    if config.get("layer_types") is None:
        raise config.error("layer_types", "is needed for this architecture and missing")
    types = attention_types(config, ["conv"] * layers, _LAYER_TYPES)
    mlp, experts = gated_mlp(config), _experts(config)
    return pre_norm_decoder(
        config,
        rms(config.int("hidden_size")),
        _mixers(config, types),
        [mlp if index < dense else experts for index in range(layers)],
        tied=True,
    )


def lfm3(config: Config) -> ModelSpec:
    """Norms before and after each block; attention gates each head by one feature."""
    config = config.with_defaults(_LFM3)
    types = attention_types(
        config,
        [_lfm3_layer(index) for index in range(layer_count(config))],
        (*_LAYER_TYPES, "sliding_attention"),
    )
    window = config.optional_int("sliding_window")
    mixers: dict[str, Block] = {
        "conv": short_convolution(config),
        "full_attention": _gated_attention(config, None),
        "sliding_attention": _gated_attention(config, window),
    }
    norm, mlp = rms(config.int("hidden_size")), gated_mlp(config)
    layer = sandwich_norm_layer if config.bool("use_sandwich_norm") else pre_norm_layer
    kinds = {name: layer(norm, mixer, mlp) for name, mixer in mixers.items()}
    return decoder(config, [kinds[each] for each in types], tied=True, final_norm=norm)


def short_convolution(config: Config) -> Recurrence:
    """Two gates and an input from one projection; only the gated input is convolved."""
    hidden, bias = config.int("hidden_size"), config.bool("conv_bias")
    return Recurrence(
        flavour="short_conv",
        weights=(
            *linear("in_proj", 3 * hidden, hidden, bias=bias),
            *depthwise_convolution("conv", hidden, config.int("conv_L_cache"), bias=bias),
            *linear("out_proj", hidden, hidden, bias=bias),
        ),
        projected_width=3 * hidden,
        convolved_width=hidden,
        inner_width=hidden,
    )


def _mixers(config: Config, types: Sequence[str]) -> list[Block]:
    convolution = short_convolution(config)
    attention = grouped_query_attention(config, qk_norm="head")
    return [convolution if each == "conv" else attention for each in types]


def _adjusted_ffn(config: Config) -> int:
    """f: two thirds of `intermediate_size`, scaled and rounded up to a multiple, if adjusted."""
    ffn = config.int("intermediate_size")
    if not config.bool("block_auto_adjust_ff_dim"):
        return ffn
    multiple = config.int("block_multiple_of")
    scaled = int(config.float("block_ffn_dim_multiplier") * int(2 * ffn / 3))
    return multiple * ceil(scaled / multiple)


def _experts(config: Config) -> Experts:
    return Experts(
        experts=config.int("num_experts"),
        top_k=config.int("num_experts_per_tok"),
        ffn=config.int("moe_intermediate_size"),
    )


def _lfm3_layer(index: int) -> str:
    """LFM 3's own pattern: a window in layers 4, 8, ..., everything in layers 2, 6, ..."""
    if index % 4 == 2:
        return "full_attention"
    return "sliding_attention" if index and index % 4 == 0 else "conv"


def _gated_attention(config: Config, window: int | None) -> Attention:
    bias = config.bool("attention_bias")
    return grouped_query_attention(
        config,
        qkv_bias=bias,
        out_bias=bias,
        qk_norm="head",
        window=window,
        gate="head" if config.bool("use_attention_gate") else None,
    )


PARSERS = {"lfm2": lfm2, "lfm2_moe": lfm2_moe, "lfm3": lfm3}
