"""Gemma 4: wider heads where attention is full, shared keys and values, inputs for each layer."""

from collections.abc import Sequence
from functools import cache
from typing import NamedTuple

from trainfit.architectures.composite import composite
from trainfit.architectures.config import Config
from trainfit.architectures.decoder import decoder, layer_count, rms
from trainfit.architectures.experts import routed_experts
from trainfit.architectures.gemma3n import per_layer_embeddings, per_layer_input, reuses_kv
from trainfit.architectures.layer_patterns import attention_types
from trainfit.architectures.weights import linear, opaque, weight
from trainfit.architectures.windows import sliding_window
from trainfit.specs.architecture import ModelSpec
from trainfit.specs.blocks import Attention, Layer, Mlp, Opaque, Sublayer

_UNIFIED = {
    "model_type": "gemma4_unified_text",
    "vocab_size": 262_144,
    "hidden_size": 2304,
    "intermediate_size": 9216,
    "num_hidden_layers": 30,
    "num_attention_heads": 8,
    "num_key_value_heads": 4,
    "num_global_key_value_heads": None,
    "head_dim": 256,
    "global_head_dim": 512,
    "attention_bias": False,
    "attention_k_eq_v": False,
    "sliding_window": 1024,
    "num_kv_shared_layers": 0,
    "use_double_wide_mlp": False,
}
_GEMMA4 = {
    **_UNIFIED,
    "model_type": "gemma4_text",
    "sliding_window": 512,
    "vocab_size_per_layer_input": 262_144,
    "hidden_size_per_layer_input": 256,
    "enable_moe_block": False,
}


class _Kind(NamedTuple):
    """What tells one layer from another."""

    full: bool
    kv_heads: int
    head_dim: int
    reuses_kv: bool


def gemma4_text(config: Config) -> ModelSpec:
    """Maybe with experts beside the MLP of every layer, and with inputs of its own for each."""
    config = config.with_defaults(_GEMMA4)
    after: list[Sublayer] = []
    extras: tuple[Opaque, ...] = ()
    if config.bool("enable_moe_block"):
        after.append(_experts(config))
    if config.int("hidden_size_per_layer_input"):
        after.append(per_layer_input(config))
        extras = (per_layer_embeddings(config),)
    types = _types(config)
    return _decoder(config, _kinds(config, types, reuses_kv(config, types)), after, extras)


def gemma4_unified_text(config: Config) -> ModelSpec:
    config = config.with_defaults(_UNIFIED)
    types = _types(config)
    return _decoder(config, _kinds(config, types, reuses_kv(config, types)))


def gemma4_assistant(config: Config) -> ModelSpec:
    """A draft model: its layers attend to the keys and values of the model it drafts for.

    It reads and returns that model's hidden states, `backbone_hidden_size` wide.
    """
    text = config.section("text_config").with_defaults(_GEMMA4)
    for key in ("hidden_size_per_layer_input", "vocab_size_per_layer_input"):
        if text.int(key):
            raise text.error(key, "must be 0 for an assistant")
    for key in ("enable_moe_block", "use_double_wide_mlp"):
        if text.bool(key):
            raise text.error(key, "must be false for an assistant")
    return _assistant(config, text, backbone=1536)


def gemma4_unified_assistant(config: Config) -> ModelSpec:
    """A draft model for a unified Gemma 4."""
    return _assistant(config, config.section("text_config").with_defaults(_UNIFIED), backbone=3840)


def _assistant(config: Config, text: Config, backbone: int) -> ModelSpec:
    hidden, width = text.int("hidden_size"), config.int("backbone_hidden_size", backbone)
    ordered = config.bool("use_ordered_embeddings", False)
    centroids = config.int("num_centroids", 2048)
    projections = opaque(
        "assistant_projections",
        "other",
        *linear("pre_projection", hidden, 2 * width),
        *linear("post_projection", width, hidden),
        *(linear("centroids", centroids, hidden) if ordered else ()),
    )
    types = _types(text)
    kinds = _kinds(text, types, [True] * len(types))
    return composite(config, _decoder(text, kinds, extras=(projections,)), 0, tied=True)


def _types(config: Config) -> Sequence[str]:
    """Every sixth layer attends fully unless `layer_types` is given; the last one always does."""
    total = layer_count(config)
    every = ["sliding_attention" if (i + 1) % 6 else "full_attention" for i in range(total)]
    return [*attention_types(config, every)[:-1], "full_attention"]


def _kinds(config: Config, types: Sequence[str], reuses: Sequence[bool]) -> Sequence[_Kind]:
    """Full attention has sizes of its own, or single layers do, by `per_layer_config`."""
    own = (config.int("num_key_value_heads"), config.int("head_dim"))
    full_kv_heads = own[0]
    if config.bool("attention_k_eq_v") and config.get("num_global_key_value_heads") is not None:
        full_kv_heads = config.int("num_global_key_value_heads")
    full = (full_kv_heads, config.int("global_head_dim"))
    if "per_layer_config" in config:
        layers = config.section("per_layer_config")
        sizes = [_overridden(layers, str(index), own) for index in range(len(types))]
    else:
        sizes = [full if each == "full_attention" else own for each in types]
    return [
        _Kind(each == "full_attention", *size, reuse)
        for each, size, reuse in zip(types, sizes, reuses, strict=True)
    ]


def _overridden(layers: Config, index: str, own: tuple[int, int]) -> tuple[int, int]:
    layer = layers.section(index, {})
    return layer.int("num_key_value_heads", own[0]), layer.int("head_dim", own[1])


def _decoder(
    config: Config,
    kinds: Sequence[_Kind],
    after: Sequence[Sublayer] = (),
    extras: tuple[Opaque, ...] = (),
) -> ModelSpec:
    """`after` are the sublayers that follow attention and MLP in each layer."""
    norm = rms(config.int("hidden_size"))

    @cache
    def layer(kind: _Kind) -> Layer:
        attention, mlp = _attention(config, kind), _mlp(config, kind)
        own = [
            Sublayer(norms=(norm,), blocks=(block,), post_norms=(norm,))
            for block in (attention, mlp)
        ]
        return Layer(sublayers=(*own, *after))

    layers = [layer(kind) for kind in kinds]
    return decoder(
        config,
        layers,
        tied=True,
        final_norm=norm,
        extras=extras,
        reads_per_layer_config=True,
    )


def _attention(config: Config, kind: _Kind) -> Attention:
    """With `attention_k_eq_v` full attention projects keys only, and uses them as values too."""
    bias = config.bool("attention_bias")
    return Attention(
        heads=config.int("num_attention_heads"),
        kv_heads=kind.kv_heads,
        head_dim=kind.head_dim,
        qkv_bias=bias,
        out_bias=bias,
        q_norm=rms(kind.head_dim),
        k_norm=None if kind.reuses_kv else rms(kind.head_dim),
        window=None if kind.full else sliding_window(config),
        key_is_value=kind.full and config.bool("attention_k_eq_v"),
        owns_kv=not kind.reuses_kv,
    )


def _mlp(config: Config, kind: _Kind) -> Mlp:
    doubled = kind.reuses_kv and config.bool("use_double_wide_mlp")
    return Mlp(ffn=config.int("intermediate_size") * (2 if doubled else 1))


def _experts(config: Config) -> Sublayer:
    """Experts that run beside the MLP, with norms of their own and a scaled router."""
    norm = rms(config.int("hidden_size"))
    experts = routed_experts(config, "num_experts", "moe_intermediate_size", top_k="top_k_experts")
    scales = opaque(
        "router_scales",
        "router",
        weight("scale", config.int("hidden_size")),
        weight("per_expert_scale", config.int("num_experts")),
    )
    return Sublayer(norms=(norm,), blocks=(experts, scales), post_norms=(norm, norm))


PARSERS = {
    "gemma4_assistant": gemma4_assistant,
    "gemma4_text": gemma4_text,
    "gemma4_unified_assistant": gemma4_unified_assistant,
    "gemma4_unified_text": gemma4_unified_text,
}
