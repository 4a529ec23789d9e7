"""Voxtral and Voxtral Realtime."""

from trainfit.architectures.composite import auto_section, composite, text_spec
from trainfit.architectures.config import Config
from trainfit.architectures.decoder import (
    decoder,
    gated_mlp,
    grouped_query_attention,
    layer_count,
    rms,
)
from trainfit.architectures.encoders.layers import mlp, projected, size, two_linears
from trainfit.architectures.encoders.towers import tower
from trainfit.architectures.encoders.whisper import WHISPER_NAMES
from trainfit.architectures.weights import opaque, weight
from trainfit.specs.architecture import ModelSpec
from trainfit.specs.blocks import Layer, Sublayer
from trainfit.specs.encoder import Projection

_VOXTRAL_TEXT = {
    "vocab_size": 131072,
    "hidden_size": 3072,
    "intermediate_size": 8192,
    "num_hidden_layers": 30,
    "num_key_value_heads": 8,
    "head_dim": 128,
}
_REALTIME_TEXT = {
    "vocab_size": 131072,
    "hidden_size": 3072,
    "intermediate_size": 9216,
    "num_hidden_layers": 26,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "head_dim": 128,
    "sliding_window": 8192,
    "tie_word_embeddings": True,
}
_REALTIME_CLASS = {
    "vocab_size": 32000,
    "hidden_size": 4096,
    "intermediate_size": 14336,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "sliding_window": 4096,
}
ADAPTIVE_RANK = 32
"""Features between the two projections that make the scale of an adaptive norm."""


def voxtral(config: Config) -> ModelSpec:
    """What a text section leaves out is that of Voxtral Mini."""
    text = text_spec(config, "llama", _VOXTRAL_TEXT, fill=True)
    audio = auto_section(config, "audio_config", "voxtral_encoder")
    features = tower(audio)
    inputs = size(audio.with_defaults({}, **WHISPER_NAMES), "intermediate_size", 5120)
    projector = mlp(inputs, text.hidden_size, text.hidden_size, bias=False)
    encoders = features.parameters + projector
    steps = two_linears(
        text.hidden_size, activation=config.str("projector_hidden_act", "gelu"), bias=False
    )
    encoder = projected(
        features.encoder,
        Projection(kind="merge", width=inputs),
        *steps,
        patches=max(1, inputs // features.width),
    )
    return composite(
        config,
        text,
        encoders,
        tied=None,
        frozen=features.frozen,
        projector=projector,
        encoder=encoder if inputs % features.width == 0 else None,
    )


def voxtral_realtime(config: Config) -> ModelSpec:
    text = text_spec(config, "voxtral_realtime_text", _REALTIME_TEXT, fill=True)
    features = tower(auto_section(config, "audio_config", "voxtral_realtime_encoder"))
    inputs = features.width * size(config, "downsample_factor", 4)
    projector = mlp(inputs, text.hidden_size, text.hidden_size, bias=False)
    return composite(config, text, features.parameters + projector, tied=True)


def voxtral_realtime_text(config: Config) -> ModelSpec:
    """Llama's layer; how late the text may come scales what enters the feed-forward."""
    config = config.with_defaults(_REALTIME_CLASS)
    hidden = config.int("hidden_size")
    norm = rms(hidden)
    adaptive = opaque(
        "ada_rms_norm",
        "other",
        weight("linear1", ADAPTIVE_RANK, hidden),
        weight("linear2", hidden, ADAPTIVE_RANK),
    )
    attention = grouped_query_attention(config, window=config.optional_int("sliding_window"))
    layer = Layer(
        sublayers=(
            Sublayer(norms=(norm,), blocks=(attention,)),
            Sublayer(norms=(norm,), blocks=(adaptive, gated_mlp(config))),
        )
    )
    return decoder(config, [layer] * layer_count(config), tied=False, final_norm=norm)


PARSERS = {
    "voxtral": voxtral,
    "voxtral_realtime": voxtral_realtime,
    "voxtral_realtime_text": voxtral_realtime_text,
}
