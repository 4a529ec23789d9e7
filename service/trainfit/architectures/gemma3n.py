"""Gemma 3n: several copies of the residual stream, and embeddings of its own for every layer."""

from collections.abc import Sequence
from functools import cache

from trainfit.architectures.config import Config
from trainfit.architectures.decoder import decoder, grouped_query_attention, layer_count, rms
from trainfit.architectures.layer_patterns import attention_types
from trainfit.architectures.weights import linear, opaque, weight
from trainfit.architectures.windows import sliding_window
from trainfit.specs.architecture import ModelSpec
from trainfit.specs.blocks import Attention, Layer, Mlp, Opaque, Sublayer

_GEMMA3N = {
    "model_type": "gemma3n_text",
    "vocab_size": 262400,
    "hidden_size": 2048,
    "intermediate_size": 16384,
    "num_hidden_layers": 35,
    "num_attention_heads": 8,
    "num_key_value_heads": 2,
    "head_dim": 256,
    "attention_bias": False,
    "sliding_window": 512,
    "vocab_size_per_layer_input": 262144,
    "hidden_size_per_layer_input": 256,
    "altup_num_inputs": 4,
    "num_kv_shared_layers": 15,
    "laurel_rank": 64,
}


def gemma3n_text(config: Config) -> ModelSpec:
    """Every fifth layer attends fully; the last `num_kv_shared_layers` reuse keys and values."""
    config = config.with_defaults(_GEMMA3N)
    total = layer_count(config)
    every = ["sliding_attention" if (i + 1) % 5 else "full_attention" for i in range(total)]
    types = attention_types(config, every)

    @cache
    def layer(attention_type: str, reuses_kv: bool, ffn: int) -> Layer:
        window = sliding_window(config) if attention_type == "sliding_attention" else None
        return _layer(config, _attention(config, window, owns_kv=not reuses_kv), ffn)

    layers = map(layer, types, reuses_kv(config, types), _feed_forward_widths(config, total))
    return decoder(
        config,
        list(layers),
        tied=True,
        final_norm=rms(config.int("hidden_size")),
        extras=(per_layer_embeddings(config), *_stream_projections(config)),
        residual_streams=config.int("altup_num_inputs"),
    )


def reuses_kv(config: Config, types: Sequence[str]) -> Sequence[bool]:
    """Which layers attend to keys and values of the last layer of their type that owns some."""
    shared = config.int("num_kv_shared_layers")
    owners = types[: len(types) - shared]
    if not 0 <= shared < len(types) or set(owners) != set(types):
        raise config.error("num_kv_shared_layers", "must leave a layer of each type with its own")
    return [index >= len(owners) for index in range(len(types))]


def per_layer_embeddings(config: Config) -> Opaque:
    """A second embedding and a projection that feed every layer p features of its own."""
    width = config.int("num_hidden_layers") * config.int("hidden_size_per_layer_input")
    return opaque(
        "per_layer_embeddings",
        "other",
        weight("embed_tokens_per_layer", config.int("vocab_size_per_layer_input"), width),
        *linear("per_layer_model_projection", width, config.int("hidden_size")),
        weight("per_layer_projection_norm", config.int("hidden_size_per_layer_input")),
    )


def per_layer_input(config: Config) -> Sublayer:
    """Where a layer's own p features gate the hidden state."""
    hidden, features = config.int("hidden_size"), config.int("hidden_size_per_layer_input")
    block = opaque(
        "per_layer_input",
        "other",
        *linear("per_layer_input_gate", features, hidden),
        *linear("per_layer_projection", hidden, features),
    )
    return Sublayer(blocks=(block,), post_norms=(rms(hidden),))


def _stream_projections(config: Config) -> tuple[Opaque, ...]:
    """Into and out of each copy of the residual stream but the first."""
    hidden, copies = config.int("hidden_size"), config.int("altup_num_inputs")
    if copies < 2:
        return ()
    names = ("altup_projections", "altup_unembed_projections")
    weights = (weight(name, copies - 1, hidden, hidden) for name in names)
    return (opaque("altup_projections", "other", *weights),)


def _feed_forward_widths(config: Config, total: int) -> Sequence[int]:
    """`intermediate_size` is one width for all layers or a list of one for each."""
    value = config.get("intermediate_size")
    if not isinstance(value, list):
        return [config.int("intermediate_size")] * total
    if len(value) != total or any(type(width) is not int for width in value):
        raise config.error("intermediate_size", f"must hold {total} integers")
    return value


def _attention(config: Config, window: int | None, *, owns_kv: bool) -> Attention:
    bias = config.bool("attention_bias")
    attention = grouped_query_attention(
        config, qkv_bias=bias, out_bias=bias, qk_norm="head", window=window
    )
    if owns_kv:
        return attention
    return attention.model_copy(update={"owns_kv": False, "k_norm": None})


def _layer(config: Config, attention: Attention, ffn: int) -> Layer:
    """AltUp predicts and corrects the stream's copies; LAuReL runs beside attention."""
    hidden, rank = config.int("hidden_size"), config.int("laurel_rank")
    norm = rms(hidden)
    laurel = opaque(
        "laurel",
        "other",
        *linear("linear_left", rank, hidden),
        *linear("linear_right", hidden, rank),
    )
    return Layer(
        sublayers=(
            Sublayer(norms=(norm,), blocks=(_altup(config),)),
            Sublayer(norms=(norm,), blocks=(attention, laurel), post_norms=(norm, norm)),
            Sublayer(norms=(norm,), blocks=(Mlp(ffn=ffn),), post_norms=(norm,)),
            per_layer_input(config),
        )
    )


def _altup(config: Config) -> Opaque:
    hidden, copies = config.int("hidden_size"), config.int("altup_num_inputs")
    return opaque(
        "altup",
        "other",
        weight("correct_output_scale", hidden),
        *linear("correction_coefs", copies, copies),
        *linear("prediction_coefs", copies * copies, copies),
        *linear("modality_router", copies, hidden),
    )


PARSERS = {"gemma3n_text": gemma3n_text}
