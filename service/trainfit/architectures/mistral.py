"""Mistral and Ministral: Llama's layer without biases, attention within a window."""

from collections.abc import Sequence

from trainfit.architectures.config import Config
from trainfit.architectures.decoder import (
    gated_mlp,
    grouped_query_attention,
    layer_count,
    pre_norm_decoder,
    rms,
)
from trainfit.architectures.windows import sliding_window, windows
from trainfit.specs.architecture import ModelSpec

_MISTRAL_7B = {
    "vocab_size": 32000,
    "hidden_size": 4096,
    "intermediate_size": 14336,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "sliding_window": 4096,
}
_MINISTRAL3 = {
    "vocab_size": 131072,
    "hidden_size": 4096,
    "intermediate_size": 14336,
    "num_hidden_layers": 34,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "head_dim": 128,
}


def _decoder(config: Config, reach: Sequence[int | None]) -> ModelSpec:
    attentions = [grouped_query_attention(config, window=window) for window in reach]
    mlps = [gated_mlp(config)] * len(reach)
    return pre_norm_decoder(config, rms(config.int("hidden_size")), attentions, mlps)


def mistral(config: Config) -> ModelSpec:
    """Every layer has the same window, whatever `layer_types` says."""
    config = config.with_defaults(_MISTRAL_7B)
    return _decoder(config, (sliding_window(config),) * layer_count(config))


def ministral(config: Config) -> ModelSpec:
    config = config.with_defaults(_MISTRAL_7B)
    window = sliding_window(config)
    return _decoder(config, windows(config, layer_count(config), lambda _: True, window))


def ministral3(config: Config) -> ModelSpec:
    config = config.with_defaults(_MINISTRAL3)
    return _decoder(config, (sliding_window(config),) * layer_count(config))


PARSERS = {"ministral": ministral, "ministral3": ministral3, "mistral": mistral}
