"""RWKV 4: time mixing by a decaying average, channel mixing with a gate."""

from trainfit.architectures.config import Config
from trainfit.architectures.decoder import decoder, layer_count, layer_norm, pre_norm_layer
from trainfit.architectures.weights import linear, opaque, weight
from trainfit.specs.architecture import ModelSpec
from trainfit.specs.blocks import Layer, Recurrence, Sublayer

_RWKV = {
    "vocab_size": 50277,
    "context_length": 1024,
    "hidden_size": 4096,
    "num_hidden_layers": 32,
    "attention_hidden_size": None,
    "intermediate_size": None,
}


def rwkv(config: Config) -> ModelSpec:
    """The first layer norms the embeddings before all else."""
    config = config.with_defaults(_RWKV, context_length="max_position_embeddings")
    hidden = config.int("hidden_size")
    norm = layer_norm(hidden)
    layer = pre_norm_layer(norm, _time_mixing(config), _channel_mixing(config))
    embedding_norm = opaque("pre_ln", "other", weight("pre_ln", 2, hidden))
    first = Layer(sublayers=(Sublayer(blocks=(embedding_norm,)), *layer.sublayers))
    layers = [first] + [layer] * (layer_count(config) - 1)
    return decoder(config, layers, tied=False, final_norm=norm)


def _time_mixing(config: Config) -> Recurrence:
    """Key, value and receptance, each from its own mix with the token before.

    Source: transformers/models/rwkv/modeling_rwkv.py.
    """
    hidden = config.int("hidden_size")
    optional = config.optional_int("attention_hidden_size")
    inner = hidden if optional is None else optional
    return Recurrence(
        flavour="rwkv_time_mixing",
        weights=(
            weight("time_decay", inner),
            weight("time_first", inner),
            weight("time_mix", 3, hidden),
            *linear("key_value_receptance", 3 * inner, hidden),
            *linear("output", hidden, inner),
        ),
        projected_width=3 * inner,
        inner_width=inner,
        bucket="attention",
    )


def _channel_mixing(config: Config) -> Recurrence:
    """A feed-forward whose output is gated; it too mixes each token with the one before."""
    hidden = config.int("hidden_size")
    optional = config.optional_int("intermediate_size")
    ffn = 4 * hidden if optional is None else optional
    return Recurrence(
        flavour="rwkv_channel_mixing",
        weights=(
            weight("time_mix", 2, hidden),
            *linear("key", ffn, hidden),
            *linear("receptance", hidden, hidden),
            *linear("value", hidden, ffn),
        ),
        projected_width=ffn + hidden,
        inner_width=ffn,
        bucket="dense_mlp",
    )


PARSERS = {"rwkv": rwkv}
