"""OLMo 1 to 3: norms without weights, then norms after each block and of queries and keys."""

from functools import cache

from trainfit.architectures.config import Config
from trainfit.architectures.decoder import (
    decoder,
    gated_mlp,
    grouped_query_attention,
    layer_count,
    post_norm_layer,
    pre_norm_layer,
    rms,
)
from trainfit.architectures.windows import sliding_window, windows
from trainfit.specs.architecture import ModelSpec
from trainfit.specs.blocks import Layer, Norm

_OLMO_7B = {
    "vocab_size": 50304,
    "hidden_size": 4096,
    "intermediate_size": 11008,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
}


def olmo(config: Config) -> ModelSpec:
    config = config.with_defaults(_OLMO_7B)
    bias = config.bool("attention_bias", False)
    norm = Norm(kind="layernorm", width=config.int("hidden_size"), weight=False)
    attention = grouped_query_attention(config, qkv_bias=bias, out_bias=bias)
    layer = pre_norm_layer(norm, attention, gated_mlp(config))
    return decoder(config, [layer] * layer_count(config), tied=False, final_norm=norm)


def _post_normed(config: Config, reach: tuple[int | None, ...]) -> ModelSpec:
    bias = config.bool("attention_bias", False)
    norm = rms(config.int("hidden_size"))

    @cache
    def layer(window: int | None) -> Layer:
        attention = grouped_query_attention(
            config, qkv_bias=bias, out_bias=bias, qk_norm="width", window=window
        )
        return post_norm_layer(norm, attention, gated_mlp(config))

    return decoder(config, [layer(window) for window in reach], tied=False, final_norm=norm)


def olmo2(config: Config) -> ModelSpec:
    config = config.with_defaults(_OLMO_7B)
    return _post_normed(config, (None,) * layer_count(config))


def olmo3(config: Config) -> ModelSpec:
    """Every fourth layer attends to the whole sequence."""
    config = config.with_defaults({**_OLMO_7B, "sliding_window": 4096})
    total, window = layer_count(config), sliding_window(config)
    return _post_normed(config, windows(config, total, lambda index: (index + 1) % 4 != 0, window))


PARSERS = {"olmo": olmo, "olmo2": olmo2, "olmo3": olmo3}
