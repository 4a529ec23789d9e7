"""From a value in the shared vocabulary, and a config.json, to a ModelSpec."""

from collections.abc import Callable, Mapping, Sequence
from functools import cache

from trainfit.architectures.config import Config
from trainfit.architectures.decoder import (
    decoder,
    gated_mlp,
    grouped_query_attention,
    head_wise_norms,
    layer_count,
    layer_norm,
    parallel_layer,
    plain_mlp,
    post_norm_layer,
    pre_norm_layer,
    rms,
    sandwich_norm_layer,
)
from trainfit.architectures.experts import routed_experts
from trainfit.architectures.latent import latent_attention, lightning_indexer
from trainfit.architectures.layer_patterns import first_dense, mlp_types
from trainfit.architectures.vocabulary import Decoder, Moe, Switch, Windows
from trainfit.architectures.windows import full_every, sliding_window, windows
from trainfit.specs.architecture import ModelSpec
from trainfit.specs.blocks import Block, Experts, Layer, Norm

Reach = Sequence[int | None]
"""The window of each layer in tokens; None is the whole sequence."""

NORMS: Mapping[str, Callable[[int], Norm]] = {
    "rms": rms,
    "rms_bare": lambda width: Norm(kind="rmsnorm", width=width, weight=False),
    "layer": layer_norm,
    "layer_unbiased": lambda width: layer_norm(width, bias=False),
    "layer_bare": lambda width: Norm(kind="layernorm", width=width, weight=False),
}
LAYERS: Mapping[str, Callable[[Norm, Block, Block], Layer]] = {
    "before": pre_norm_layer,
    "after": post_norm_layer,
    "around": sandwich_norm_layer,
    "shared": lambda norm, attention, mlp: parallel_layer((norm,), attention, mlp),
}


def read_decoder(family: Decoder, config: Config) -> ModelSpec:
    """The model of a config.json whose family is described in the shared vocabulary."""
    config = config.with_defaults(family.dims, **family.aliases)
    config = Config({**config.values, **family.fixed}, config.path)
    norm = NORMS[family.norm](config.int("hidden_size"))

    total = layer_count(config)
    reach = _reach(family, config, total)
    attentions = {window: _attention(family, config, window) for window in dict.fromkeys(reach)}

    @cache
    def layer(window: int | None, feed_forward: Block) -> Layer:
        return LAYERS[family.norms](norm, attentions[window], feed_forward)

    parts = zip(reach, _feed_forwards(family, config, total), strict=True)
    return decoder(
        config,
        [layer(window, feed_forward) for window, feed_forward in parts],
        tied=family.tied,
        final_norm=norm,
        head_bias=_is_on(config, family.head_bias),
    )


def _is_on(config: Config, switch: Switch) -> bool:
    return switch if isinstance(switch, bool) else config.bool(*switch)


def _attention(family: Decoder, config: Config, window: int | None) -> Block:
    if family.attention != "grouped":
        indexed = family.attention == "indexed"
        return latent_attention(config, indexer=lightning_indexer(config) if indexed else None)
    qk_norm = family.qk_norm
    if family.qk_norm_key is not None and not config.bool(*family.qk_norm_key):
        qk_norm = None
    attention = grouped_query_attention(
        config,
        qkv_bias=_is_on(config, family.qkv_bias),
        out_bias=_is_on(config, family.out_bias),
        qk_norm=None if qk_norm == "each_head" else qk_norm,
        sinks=family.sinks,
        window=window,
        rope=_is_rotary(family, config, window),
        gate=family.gate,
    )
    return head_wise_norms(attention) if qk_norm == "each_head" else attention


def _is_rotary(family: Decoder, config: Config, window: int | None) -> bool:
    match family.rope:
        case "everywhere":
            return True
        case "in_windows":
            return window is not None
        case "in_windows_if_any":
            return window == sliding_window(config)


def _reach(family: Decoder, config: Config, total: int) -> Reach:
    if family.windows is None:
        return (None,) * total
    switch = family.windows.switch
    window = sliding_window(config) if switch is None or config.bool(*switch) else None
    if not family.windows.listed:
        return (window,) * total
    return windows(config, total, _slides(family.windows, config), window)


def _slides(rule: Windows, config: Config) -> Callable[[int], bool]:
    """The class's own rule, by layer index."""
    match rule.slides:
        case "all" | "none":
            return lambda _: rule.slides == "all"
        case "late":
            late = config.int("max_window_layers")
            return lambda index: index >= late
        case "not_every":
            every = full_every(
                config, rule.period_key, rule.period, nullable=rule.nullable, spelt=rule.spelt
            )
            first = every - 1 if rule.first is None else rule.first
            return lambda index: (index - first) % every != 0


def _feed_forwards(family: Decoder, config: Config, total: int) -> Sequence[Block]:
    make = gated_mlp if family.mlp == "gated" else plain_mlp
    if family.experts is None:
        return [make(config, bias=_is_on(config, family.mlp_bias))] * total
    moe = family.experts
    if moe.dense == 0 and not moe.listed:
        return [_experts(moe, config)] * total
    blocks: dict[str, Block] = {"dense": make(config, bias=_is_on(config, family.mlp_bias))}
    types = first_dense(total, config.int(moe.dense) if isinstance(moe.dense, str) else moe.dense)
    if moe.listed:
        types = mlp_types(config, types)
    if "sparse" in types:
        blocks["sparse"] = _experts(moe, config)
    return [blocks[each] for each in types]


def _experts(moe: Moe, config: Config) -> Experts:
    shared = config.int(moe.shared_width) if moe.shared_width is not None else 0
    if moe.shared_count is not None:
        count = config.optional_int if moe.nullable else config.int
        shared = (count(moe.shared_count) or 0) * config.int(moe.width)
    return routed_experts(
        config,
        moe.count,
        moe.width,
        top_k=moe.top_k,
        shared_ffn=shared,
        shared_bias=_is_on(config, moe.shared_bias),
        bias=moe.bias,
        router_bias=moe.router_bias,
        correction_bias=moe.correction_bias,
    )
