"""SmolLM3: Llama's layer, every fourth without rotary positions."""

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

_SMOLLM3_3B = {
    "vocab_size": 128256,
    "hidden_size": 2048,
    "intermediate_size": 11008,
    "num_hidden_layers": 36,
    "num_attention_heads": 16,
    "num_key_value_heads": 4,
}


def _rotary(config: Config, layers: int) -> Sequence[bool]:
    """`no_rope_layers`, which is 1 where a layer does have rotary positions."""
    if config.get("no_rope_layers") is None:
        interval = config.int("no_rope_layer_interval", 4)
        return [(index + 1) % interval != 0 for index in range(layers)]
    flags = config.list("no_rope_layers")
    if len(flags) < layers:
        raise config.error("no_rope_layers", f"must have one entry for each of {layers} layers")
    return [bool(flag) for flag in flags[:layers]]


def smollm3(config: Config) -> ModelSpec:
    config = config.with_defaults(_SMOLLM3_3B)
    bias = config.bool("attention_bias", False)
    total = layer_count(config)
    rotary = _rotary(config, total)
    window = sliding_window(config) if config.bool("use_sliding_window", False) else None
    reach = windows(config, total, lambda index: not rotary[index], window)
    attentions = [
        grouped_query_attention(config, qkv_bias=bias, out_bias=bias, window=each, rope=rope)
        for each, rope in zip(reach, rotary, strict=True)
    ]
    mlps = [gated_mlp(config, bias=config.bool("mlp_bias", False))] * total
    norm = rms(config.int("hidden_size"))
    return pre_norm_decoder(config, norm, attentions, mlps, tied=True)


PARSERS = {"smollm3": smollm3}
