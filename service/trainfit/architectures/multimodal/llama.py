"""Llama 3.2 Vision, whose text attends to the image, and Llama 4."""

from math import ceil

from trainfit.architectures.composite import (
    composite,
    own_text_spec,
    section,
    whole_text_composite,
)
from trainfit.architectures.config import Config
from trainfit.architectures.decoder import (
    decoder,
    gated_mlp,
    grouped_query_attention,
    layer_count,
    pre_norm_layer,
    rms,
)
from trainfit.architectures.encoders.layers import linear, linear_step, projected, size
from trainfit.architectures.encoders.llama4 import llama4_vision
from trainfit.architectures.encoders.mllama import mllama_vision
from trainfit.architectures.layer_patterns import layer_numbers
from trainfit.architectures.weights import opaque, weight
from trainfit.specs.architecture import ModelSpec
from trainfit.specs.blocks import Layer, Opaque, Sublayer
from trainfit.specs.encoder import Encoder, Projection

_MLLAMA_TEXT = {
    "vocab_size": 128256,
    "hidden_size": 4096,
    "intermediate_size": 14336,
    "num_hidden_layers": 40,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "cross_attention_layers": (3, 8, 13, 18, 23, 28, 33, 38),
}
IMAGE_TOKENS = 8
"""Rows of the embedding, beyond the vocabulary, that the head does not score."""


def mllama_text(config: Config) -> ModelSpec:
    """Llama 3.1 with layers that attend to the image's features instead of the text's."""
    config = Config({**_MLLAMA_TEXT, **config.values, "head_dim": None}, config.path)
    norm = rms(config.int("hidden_size"))
    own = pre_norm_layer(norm, grouped_query_attention(config), gated_mlp(config))
    cross = _cross_attention_layer(config)
    crossing = layer_numbers(config, "cross_attention_layers")
    layers = [cross if index in crossing else own for index in range(layer_count(config))]
    spec = decoder(config, layers, tied=False, final_norm=norm)
    rows = spec.embedding.rows + IMAGE_TOKENS
    embedding = spec.embedding.model_copy(update={"rows": rows})
    return spec.model_copy(update={"embedding": embedding})


def mllama(config: Config) -> ModelSpec:
    features = mllama_vision(section(config, "vision_config"))
    text = own_text_spec(config, "mllama_text_model")
    projector = linear(features.width, text.hidden_size)
    return composite(config, text, features.parameters + projector, tied=None)


def llama4(config: Config) -> ModelSpec:
    """The text model within is whole: it ties its head by its own section alone."""
    vision = section(config, "vision_config")
    features = llama4_vision(vision)
    text = own_text_spec(config, "llama4_text")
    projector = linear(features.width, text.hidden_size, bias=False)
    whole = whole_text_composite(config, text, features.parameters + projector)
    encoder = _shuffled(vision, features.encoder, text.hidden_size)
    return whole.model_copy(update={"encoder": encoder, "projector_parameters": projector})


def _shuffled(vision: Config, encoder: Encoder | None, text: int) -> Encoder | None:
    """The tower, whose patches `pixel_shuffle_ratio` lays on one another, if it does, before its
    adapter and the projector.
    """
    ratio = vision.float("pixel_shuffle_ratio", 0.5)
    if encoder is None or not 1 / 64 <= ratio <= 1:
        return None
    inner = size(vision, "projector_input_dim", 4096)
    outer = size(vision, "projector_output_dim", 4096)
    adapter = (
        Projection(kind="merge", width=int(encoder.hidden_size / ratio**2)),
        linear_step(inner, "fc1", bias=False),
        Projection(kind="activation", width=inner),
        linear_step(outer, "fc2", bias=False),
        Projection(kind="activation", width=outer),
    )
    adapted = encoder.model_copy(update={"adapter": adapter})
    return projected(adapted, linear_step(text, "linear_1", bias=False), patches=ceil(1 / ratio**2))


def _cross_attention_layer(config: Config) -> Layer:
    """Attention and feed-forward are each scaled by a learned number."""
    norm = rms(config.int("hidden_size"))
    attention = grouped_query_attention(config, qk_norm="head", rope=False)
    return Layer(
        sublayers=(
            Sublayer(norms=(norm,), blocks=(attention, _gate("cross_attn_attn_gate"))),
            Sublayer(norms=(norm,), blocks=(gated_mlp(config), _gate("cross_attn_mlp_gate"))),
        )
    )


def _gate(name: str) -> Opaque:
    return opaque(name, "attention", weight(name, 1))


PARSERS = {"llama4": llama4, "mllama": mllama, "mllama_text_model": mllama_text}
