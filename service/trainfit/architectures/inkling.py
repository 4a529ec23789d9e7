"""Inkling 1 and 2: positions from a projection of their own, short convolutions everywhere.

Symbols: h hidden, a and g query and kv heads, d head dimension, E experts.
"""

from functools import cache

from trainfit.architectures.config import Config
from trainfit.architectures.decoder import decoder, layer_count, rms
from trainfit.architectures.experts import routed_experts
from trainfit.architectures.layer_patterns import (
    attention_types,
    first_dense,
    layer_numbers,
    mlp_types,
)
from trainfit.architectures.weights import depthwise_convolution, linear, opaque, weight
from trainfit.specs.architecture import ModelSpec
from trainfit.specs.blocks import (
    Attention,
    Block,
    Bucket,
    Experts,
    Layer,
    Mlp,
    NamedWeight,
    Norm,
    Opaque,
    Sublayer,
)

_SIZES = {
    "vocab_size": 201024,
    "num_key_value_heads": 8,
    "head_dim": 128,
    "swa_head_dim": 128,
    "d_rel": 16,
    "rel_extent": 1024,
    "conv_kernel_size": 4,
}
_INKLING = {
    **_SIZES,
    "hidden_size": 6144,
    "num_hidden_layers": 66,
    "num_attention_heads": 64,
    "swa_num_attention_heads": 64,
    "swa_num_key_value_heads": 16,
    "sliding_window_size": 512,
    "intermediate_size": 24576,
    "moe_intermediate_size": 3072,
    "n_routed_experts": 256,
    "num_experts_per_tok": 6,
    "n_shared_experts": 2,
    "dense_mlp_idx": 0,
}
_INKLING2 = {
    **_SIZES,
    "hidden_size": 4608,
    "num_hidden_layers": 48,
    "num_attention_heads": 48,
    "swa_num_attention_heads": 48,
    "swa_num_key_value_heads": 8,
    "sliding_window_size": 1024,
    "moe_intermediate_size": 2304,
    "n_routed_experts": 384,
    "num_experts_per_tok": 8,
}
_ALIASES = {
    "model_max_length": "max_position_embeddings",
    "num_local_experts": "n_routed_experts",
    "sconv_kernel_size": "conv_kernel_size",
    "sliding_window": "sliding_window_size",
}
_TYPES = ("hybrid", "hybrid_sliding")


def inkling_text(config: Config) -> ModelSpec:
    """`dense_intermediate_size` makes `intermediate_size` the experts' width.

    A multi-token-prediction depth attends fully and has no experts.
    """
    config = config.with_defaults(_INKLING, **_ALIASES)
    if config.get("dense_intermediate_size") is not None:
        config = config.with_defaults(
            {},
            intermediate_size="moe_intermediate_size",
            dense_intermediate_size="intermediate_size",
        )
    total = layer_count(config)
    local = layer_numbers(config, "local_layer_ids")
    if config.get("local_layer_ids") is None:
        local = frozenset(index for index in range(total) if (index + 1) % 6)
    sliding = [_TYPES[index in local] for index in range(total)]
    dense = first_dense(total, config.int("dense_mlp_idx"))

    @cache
    def layer(attention_type: str, mlp_type: str) -> Layer:
        return _inkling_layer(config, attention_type == "hybrid_sliding", mlp_type == "dense")

    types = zip(attention_types(config, sliding, _TYPES), mlp_types(config, dense), strict=True)
    return decoder(
        config,
        [layer(*each) for each in types],
        tied=None,
        final_norm=rms(config.int("hidden_size")),
        mtp_layer=layer("hybrid", "dense"),
        extras=(_embedding_norm(config),),
    )


def inkling2_text(config: Config) -> ModelSpec:
    """Each block reads a learned mix of earlier blocks' outputs, but for the first attention."""
    config = config.with_defaults(_INKLING2, **_ALIASES, intermediate_size="moe_intermediate_size")
    total = layer_count(config)
    default = [_TYPES[(index + 1) % 6 != 0] for index in range(total)]
    types = attention_types(config, default, _TYPES)

    @cache
    def layer(attention_type: str, first: bool) -> Layer:
        return _inkling2_layer(config, attention_type == "hybrid_sliding", first)

    return decoder(
        config,
        [layer(each, index == 0) for index, each in enumerate(types)],
        tied=None,
        final_norm=rms(config.int("hidden_size")),
        extras=(_embedding_norm(config), _query(config, "final_input", "other")),
    )


def _inkling_layer(config: Config, sliding: bool, dense: bool) -> Layer:
    hidden = config.int("hidden_size")
    attention = _attention(config, sliding, normed=True)
    positions = opaque(
        "positions_and_convolutions",
        "attention",
        *_relative_positions(config, attention),
        *_key_value_convolutions(config, attention),
    )
    scale = opaque("scale", "dense_mlp", weight("global_scale", 1))
    mlp: Block = Mlp(ffn=config.int("intermediate_size")) if dense else _inkling_experts(config)
    return Layer(
        sublayers=(
            Sublayer(norms=(rms(hidden),), blocks=(attention, positions, _convolution(config))),
            Sublayer(norms=(rms(hidden),), blocks=(mlp, scale, _convolution(config))),
        )
    )


def _inkling2_layer(config: Config, sliding: bool, first: bool) -> Layer:
    """Full attention norms the inputs of query, key and value apart, and mixes each by its own."""
    hidden = config.int("hidden_size")
    attention = _attention(config, sliding, normed=False)
    inputs = 1 if sliding else 3
    convolutions = (
        _key_value_convolutions(config, attention)
        if sliding
        else _dynamic_convolutions(config, attention)
    )
    own = opaque(
        "positions_and_convolutions",
        "attention",
        *_relative_positions(config, attention),
        *convolutions,
        *linear("sink_proj", attention.heads, hidden),
        weight("query_scale", attention.heads, attention.head_dim),
        weight("relative_scale", attention.heads, config.int("d_rel")),
    )
    mixed = () if first else (_query(config, "attention_input", "attention", inputs),)
    experts = routed_experts(config, "n_routed_experts", "moe_intermediate_size")
    return Layer(
        sublayers=(
            Sublayer(
                norms=(rms(hidden, copies=inputs),),
                blocks=(*mixed, attention, own, _convolution(config)),
            ),
            Sublayer(
                norms=(rms(hidden),),
                blocks=(_query(config, "mlp_input", "dense_mlp"), experts, _convolution(config)),
            ),
        )
    )


def _attention(config: Config, sliding: bool, *, normed: bool) -> Attention:
    """Inkling norms query and key heads, Inkling 2 gates the output."""
    prefix = "swa_" if sliding else ""
    heads, d = config.int(f"{prefix}num_attention_heads"), config.int(f"{prefix}head_dim")
    norm: Norm | None = rms(d) if normed else None
    return Attention(
        heads=heads,
        kv_heads=config.int(f"{prefix}num_key_value_heads"),
        head_dim=d,
        q_norm=norm,
        k_norm=norm,
        gate_width=0 if normed else heads * d,
        window=config.int("sliding_window_size") if sliding else None,
        rope=False,
    )


def _relative_positions(config: Config, attention: Attention) -> tuple[NamedWeight, ...]:
    """A score for each distance within the window, or within `rel_extent`."""
    features = config.int("d_rel")
    return (
        *linear("r_proj", attention.heads * features, config.int("hidden_size")),
        weight("relative_logits", features, attention.window or config.int("rel_extent")),
    )


def _key_value_convolutions(config: Config, attention: Attention) -> tuple[NamedWeight, ...]:
    width = attention.kv_heads * attention.head_dim
    return depthwise_convolution("kv_convolutions", 2 * width, config.int("conv_kernel_size"))


def _dynamic_convolutions(config: Config, attention: Attention) -> tuple[NamedWeight, ...]:
    """Filters by feature, and others by head that each token makes for itself."""
    filters = 2 * attention.kv_heads * config.int("conv_kernel_size")
    return (
        *_key_value_convolutions(config, attention),
        *linear("kv_filter_proj", filters, config.int("hidden_size")),
    )


def _convolution(config: Config) -> Opaque:
    """After each block, over time."""
    channels, kernel = config.int("hidden_size"), config.int("conv_kernel_size")
    weights = depthwise_convolution("convolution", channels, kernel)
    return opaque("convolution", "linear_attention", *weights)


def _inkling_experts(config: Config) -> Experts:
    """The router scores the shared experts too."""
    width, shared = config.int("moe_intermediate_size"), config.int("n_shared_experts")
    return Experts(
        experts=config.int("n_routed_experts"),
        top_k=config.int("num_experts_per_tok"),
        ffn=width,
        router_width=config.int("n_routed_experts") + shared,
        shared_ffn=shared * width or None,
    )


def _query(config: Config, name: str, bucket: Bucket, queries: int = 1) -> Opaque:
    """What weighs the earlier outputs that a block reads."""
    return opaque(name, bucket, weight(name, queries, config.int("hidden_size")))


def _embedding_norm(config: Config) -> Opaque:
    """The norm within the embedding, counted with it."""
    return opaque("embedding_norm", "embedding", weight("norm", config.int("hidden_size")))


PARSERS = {"inkling2_text": inkling2_text, "inkling_text": inkling_text}
