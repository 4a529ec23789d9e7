"""EXAONE 4: norms after each block and of query and key heads, windows in three layers of four."""

from functools import cache

from trainfit.architectures.config import Config
from trainfit.architectures.decoder import (
    decoder,
    gated_mlp,
    grouped_query_attention,
    layer_count,
    post_norm_layer,
    rms,
)
from trainfit.architectures.windows import sliding_window, windows
from trainfit.specs.architecture import ModelSpec
from trainfit.specs.blocks import Layer

_EXAONE4 = {
    "vocab_size": 102400,
    "hidden_size": 4096,
    "intermediate_size": 16384,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 32,
    "sliding_window": 4096,
}


def full_every(config: Config) -> int:
    """The period of full attention, a number or spelt out as in "LLLG"."""
    pattern = config.get("sliding_window_pattern")
    if isinstance(pattern, str):
        return len(pattern)
    return config.optional_int("sliding_window_pattern") or 4


def exaone4(config: Config) -> ModelSpec:
    """Where some layers have a window, the others have no rotary positions."""
    config = config.with_defaults(_EXAONE4)
    norm = rms(config.int("hidden_size"))
    sliding = sliding_window(config)

    @cache
    def layer(window: int | None) -> Layer:
        attention = grouped_query_attention(
            config, qk_norm="head", window=window, rope=window == sliding
        )
        return post_norm_layer(norm, attention, gated_mlp(config))

    def slides(index: int) -> bool:
        return sliding is not None and (index + 1) % full_every(config) != 0

    reach = windows(config, layer_count(config), slides, sliding)
    return decoder(config, [layer(window) for window in reach], tied=False, final_norm=norm)


PARSERS = {"exaone4": exaone4}
