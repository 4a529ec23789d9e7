"""Granite and HyperCLOVA X where they are more than Llama's layer: sinks, norms after."""

from trainfit.architectures.config import Config
from trainfit.architectures.decoder import (
    decoder,
    gated_mlp,
    grouped_query_attention,
    layer_count,
    pre_norm_decoder,
    pre_norm_layer,
    rms,
    sandwich_norm_layer,
)
from trainfit.architectures.vocabulary import LLAMA_7B
from trainfit.architectures.windows import sliding_window, windows
from trainfit.specs.architecture import ModelSpec

_GRANITE_SWA = {
    "vocab_size": 100352,
    "hidden_size": 2560,
    "intermediate_size": 8192,
    "num_hidden_layers": 24,
    "num_attention_heads": 20,
    "num_key_value_heads": 4,
    "sliding_window": 128,
}


def granite_swa(config: Config) -> ModelSpec:
    """Attention sinks everywhere; three layers of four within a window.

    A `layer_rope_theta` of 0 means no rotary positions in that layer.
    """
    config = config.with_defaults(_GRANITE_SWA)
    bias = config.bool("attention_bias", False)
    total = layer_count(config)
    thetas = config.get("layer_rope_theta") or [None] * total
    if not isinstance(thetas, list) or len(thetas) != total:
        raise config.error("layer_rope_theta", f"must have one entry for each of {total} layers")
    reach = windows(config, total, lambda index: index % 4 != 0, sliding_window(config))
    attentions = [
        grouped_query_attention(
            config, qkv_bias=bias, out_bias=bias, sinks=True, window=window, rope=theta != 0
        )
        for window, theta in zip(reach, thetas, strict=True)
    ]
    mlps = [gated_mlp(config, bias=config.bool("mlp_bias", False))] * total
    norm = rms(config.int("hidden_size"))
    return pre_norm_decoder(config, norm, attentions, mlps, tied=True)


def hyperclovax(config: Config) -> ModelSpec:
    config = config.with_defaults(LLAMA_7B)
    bias = config.bool("attention_bias", False)
    norm = rms(config.int("hidden_size"))
    wrap = sandwich_norm_layer if config.bool("use_post_norm", True) else pre_norm_layer
    layer = wrap(
        norm,
        grouped_query_attention(config, qkv_bias=bias, out_bias=bias),
        gated_mlp(config, bias=config.bool("mlp_bias", False)),
    )
    return decoder(config, [layer] * layer_count(config), tied=False, final_norm=norm)


PARSERS = {"granite_swa": granite_swa, "hyperclovax": hyperclovax}
