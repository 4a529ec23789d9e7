"""What most decoders share: embedding, layers by kind, final norm, head."""

from collections.abc import Sequence
from typing import Literal

from trainfit.architectures.config import Config
from trainfit.architectures.families import implementation_of
from trainfit.architectures.traits import traits_of
from trainfit.specs.architecture import (
    MAX_LAYERS,
    Embedding,
    ModelSpec,
    MultiTokenPrediction,
    OutputLayer,
)
from trainfit.specs.blocks import Attention, Block, Layer, Mlp, Norm, Opaque, Sublayer

MTP_DEPTH_KEYS = (
    "num_nextn_predict_layers",
    "mtp_num_hidden_layers",
    "mtp_num_layers",
    "num_mtp_layers",
    "num_mtp_modules",
)
"""What models call the number of their multi-token-prediction depths."""

Branch = Block | tuple[Block, ...]
"""What one residual branch adds: a block, or several that read the same input."""


def _blocks(branch: Branch) -> tuple[Block, ...]:
    return branch if isinstance(branch, tuple) else (branch,)


def rms(width: int, copies: int = 1) -> Norm:
    return Norm(kind="rmsnorm", width=width, copies=copies)


def layer_norm(width: int, *, bias: bool = True, copies: int = 1) -> Norm:
    return Norm(kind="layernorm", width=width, bias=bias, copies=copies)


def pre_norm_layer(norm: Norm, *branches: Branch) -> Layer:
    """Residual branches, each behind a norm of its own."""
    return Layer(
        sublayers=tuple(Sublayer(norms=(norm,), blocks=_blocks(branch)) for branch in branches)
    )


def sandwich_norm_layer(norm: Norm, *branches: Branch) -> Layer:
    """Residual branches, each between two norms of its own."""
    return Layer(
        sublayers=tuple(
            Sublayer(norms=(norm,), blocks=_blocks(branch), post_norms=(norm,))
            for branch in branches
        )
    )


def post_norm_layer(norm: Norm, *branches: Branch) -> Layer:
    """Residual branches, each before a norm of its own."""
    return Layer(
        sublayers=tuple(Sublayer(blocks=_blocks(branch), post_norms=(norm,)) for branch in branches)
    )


def parallel_layer(norms: tuple[Norm, ...], *blocks: Block) -> Layer:
    """All blocks in one residual branch, behind one norm or one each."""
    return Layer(sublayers=(Sublayer(norms=norms, blocks=blocks),))


def layer_count(config: Config, key: str = "num_hidden_layers") -> int:
    """The number of layers, refused where a list of them would be unreasonably long."""
    count = config.int(key)
    if not 1 <= count <= MAX_LAYERS:
        raise config.error(key, f"must be between 1 and {MAX_LAYERS}")
    return count


def head_dim(config: Config, heads: int) -> int:
    """`head_dim`; where null or absent, hidden_size / heads."""
    value = config.optional_int("head_dim")
    return value if value is not None else config.int("hidden_size") // heads


def kv_heads(config: Config, heads: int) -> int:
    """`num_key_value_heads`; as many as heads where null or absent."""
    value = config.optional_int("num_key_value_heads")
    return value if value is not None else heads


def grouped_query_attention(
    config: Config,
    *,
    qkv_bias: bool = False,
    out_bias: bool = False,
    qk_norm: Literal["head", "width"] | None = None,
    sinks: bool = False,
    window: int | None = None,
    rope: bool = True,
    gate: Literal["feature", "head"] | None = None,
    gate_bias: bool = False,
) -> Attention:
    """The attention of Llama and its many descendants.

    `qk_norm` is an RMSNorm of queries and keys: over each head, or over the width of all of them.
    `gate` is a projection beside the query's that scales the output by feature or by head.
    """
    heads = config.int("num_attention_heads")
    groups = kv_heads(config, heads)
    width = head_dim(config, heads)
    spans = (heads, groups) if qk_norm == "width" else (1, 1)
    gate_width = heads * width if gate == "feature" else heads
    return Attention(
        heads=heads,
        kv_heads=groups,
        head_dim=width,
        qkv_bias=qkv_bias,
        out_bias=out_bias,
        q_norm=rms(spans[0] * width) if qk_norm else None,
        k_norm=rms(spans[1] * width) if qk_norm else None,
        gate_width=gate_width if gate else 0,
        gate_bias=gate_bias,
        sinks=sinks,
        window=window,
        rope=rope,
    )


def multi_head_attention(
    config: Config,
    *,
    groups: int | None = None,
    qkv_bias: bool = False,
    out_bias: bool = False,
    qk_norm: Norm | None = None,
    window: int | None = None,
    rope: bool = True,
) -> Attention:
    """Attention whose heads share out `hidden_size`: these classes know no other head width."""
    heads, hidden = config.int("num_attention_heads"), config.int("hidden_size")
    if hidden % heads:
        raise config.error("num_attention_heads", "must divide hidden_size")
    return Attention(
        heads=heads,
        kv_heads=heads if groups is None else groups,
        head_dim=hidden // heads,
        qkv_bias=qkv_bias,
        out_bias=out_bias,
        q_norm=qk_norm,
        k_norm=qk_norm,
        window=window,
        rope=rope,
    )


def head_wise_norms(attention: Attention) -> Attention:
    """A LayerNorm without bias for each single query and key head."""
    width = attention.head_dim
    return attention.model_copy(
        update={
            "q_norm": layer_norm(width, bias=False, copies=attention.heads),
            "k_norm": layer_norm(width, bias=False, copies=attention.kv_heads),
        }
    )


def gated_mlp(config: Config, *, bias: bool = False) -> Mlp:
    return Mlp(ffn=config.int("intermediate_size"), gated=True, bias=bias)


def plain_mlp(config: Config, *, bias: bool = False) -> Mlp:
    return Mlp(ffn=config.int("intermediate_size"), gated=False, bias=bias)


def decoder(
    config: Config,
    layers: Sequence[Layer],
    *,
    tied: bool | None,
    final_norm: Norm | None,
    head_bias: bool = False,
    position_rows: int = 0,
    embedding_norms: tuple[Norm, ...] = (),
    mtp_layer: Layer | None = None,
    extras: tuple[Opaque, ...] = (),
    residual_streams: int = 1,
    reads_per_layer_config: bool = False,
) -> ModelSpec:
    """A ModelSpec from one Layer per layer; equal layers become one kind.

    `tied` is the class's default for `tie_word_embeddings`, None where it never ties. The
    multi-token-prediction depths that a config declares have a layer of the last layer's kind,
    unless `mtp_layer` is another. `per_layer_config`, which any config may have, is refused
    where the family has not read it.
    """
    if config.get("per_layer_config") and not reads_per_layer_config:
        raise config.error("per_layer_config", "layers with sizes of their own are not supported")
    hidden = config.int("hidden_size")
    vocab = config.int("vocab_size")
    mtp_depths = multi_token_prediction_depths(config)
    kinds, pattern = distinct((*layers, mtp_layer) if mtp_layer and mtp_depths else layers)
    return ModelSpec(
        model_type=config.str("model_type"),
        hidden_size=hidden,
        embedding=Embedding(
            rows=vocab, width=hidden, position_rows=position_rows, norms=embedding_norms
        ),
        layer_kinds=kinds,
        pattern=pattern[: len(layers)],
        final_norms=() if final_norm is None else (final_norm,),
        output_layer=output_layer(config, vocab, tied=tied, bias=head_bias),
        mtp=MultiTokenPrediction(
            num_layers=mtp_depths, layer_kind=pattern[-1], norms=(rms(hidden),) * 3
        )
        if mtp_depths
        else None,
        extras=extras,
        max_position_embeddings=config.optional_int("max_position_embeddings"),
        traits=traits_of(config),
        implementation=implementation_of(config.str("model_type")),
        residual_streams=residual_streams,
    )


def output_layer(config: Config, vocab: int, *, tied: bool | None, bias: bool) -> OutputLayer:
    """The projection onto the vocabulary, or onto the labels of a classifier or reward model."""
    hidden = config.int("hidden_size")
    architectures = config.list("architectures", ()) if config.get("architectures") else ()
    if architectures and str(architectures[0]).endswith("ForSequenceClassification"):
        return OutputLayer(rows=_labels(config), width=hidden, scores_labels=True)
    ties = tied is not None and config.bool("tie_word_embeddings", tied)
    return OutputLayer(rows=vocab, width=hidden, tied=ties, bias=bias)


def _labels(config: Config) -> int:
    """`id2label` counts the labels; two where neither it nor `num_labels` is given."""
    if config.get("id2label") is None:
        return config.int("num_labels", 2)
    return len(config.section("id2label").values)


def pre_norm_decoder(
    config: Config,
    norm: Norm,
    attentions: Sequence[Branch],
    feed_forwards: Sequence[Branch],
    *,
    tied: bool | None = False,
    head_bias: bool = False,
    mtp_layer: Layer | None = None,
    extras: tuple[Opaque, ...] = (),
    residual_streams: int = 1,
) -> ModelSpec:
    """A decoder whose layer i is `attentions[i]` then `feed_forwards[i]`, a norm before each."""
    layers: dict[tuple[Branch, Branch], Layer] = {}
    for pair in zip(attentions, feed_forwards, strict=True):
        if pair not in layers:
            layers[pair] = pre_norm_layer(norm, *pair)
    stack = [layers[pair] for pair in zip(attentions, feed_forwards, strict=True)]
    return decoder(
        config,
        stack,
        tied=tied,
        final_norm=norm,
        head_bias=head_bias,
        mtp_layer=mtp_layer,
        extras=extras,
        residual_streams=residual_streams,
    )


def distinct(layers: Sequence[Layer]) -> tuple[tuple[Layer, ...], tuple[int, ...]]:
    """The kinds of layer in order of appearance, and each layer's kind.

    A layer object that is used again is recognised at once, an equal one by its hash.
    """
    kinds: dict[Layer, int] = {}
    by_object: dict[int, int] = {}
    for layer in layers:
        if id(layer) not in by_object:
            by_object[id(layer)] = kinds.setdefault(layer, len(kinds))
    return tuple(kinds), tuple(by_object[id(layer)] for layer in layers)


def multi_token_prediction_depths(config: Config) -> int:
    """The depths that the config declares under one of the names in use; 0 without any."""
    if config.get("use_mtp") is False:
        return 0
    declared = (config.optional_int(key) for key in MTP_DEPTH_KEYS)
    return next((depths for depths in declared if depths), 0)
