"""Zaya: attention on convolved queries and keys, experts chosen by a network of the router's own.

Symbols: h hidden, a and g query and kv heads, d head dimension, r width of the router.
"""

from trainfit.architectures.config import Config
from trainfit.architectures.decoder import decoder, grouped_query_attention, layer_count, rms
from trainfit.architectures.layer_patterns import attention_types
from trainfit.architectures.weights import depthwise_convolution, linear, opaque, weight
from trainfit.specs.architecture import ModelSpec
from trainfit.specs.blocks import Attention, Bucket, Experts, Layer, Opaque, Sublayer

_ZAYA = {
    "vocab_size": 262272,
    "hidden_size": 2048,
    "num_hidden_layers": 40,
    "num_attention_heads": 8,
    "num_key_value_heads": 2,
    "head_dim": 128,
    "attention_bias": False,
    "lm_head_bias": False,
    "moe_intermediate_size": 2048,
    "num_experts_per_tok": 1,
    "num_experts": 16,
    "router_hidden_size": 256,
    "cca_time0": 2,
    "cca_time1": 2,
}


def zaya(config: Config) -> ModelSpec:
    """From the second layer on, a router also scales the router state of the layer before."""
    config = config.with_defaults(_ZAYA)
    total = layer_count(config)
    types = attention_types(config, ["hybrid"] * total, ("hybrid", "hybrid_sliding"))
    windows = [config.int("sliding_window") if each == "hybrid_sliding" else None for each in types]
    kinds = {window: _layer(config, window, first=False) for window in set(windows)}
    layers = [kinds[window] for window in windows]
    layers[0] = _layer(config, windows[0], first=True)
    hidden = config.int("hidden_size")
    return decoder(
        config,
        layers,
        tied=True,
        final_norm=rms(hidden),
        head_bias=config.bool("lm_head_bias"),
        extras=(opaque("input_scale", "other", weight("input_scale", 2, hidden)),),
    )


def _layer(config: Config, window: int | None, *, first: bool) -> Layer:
    norm = rms(config.int("hidden_size"))
    attention = _attention(config, window)
    return Layer(
        sublayers=(
            Sublayer(
                norms=(norm,),
                blocks=(
                    attention,
                    _convolutions(config, attention),
                    _residual_scale(config, "attention"),
                ),
            ),
            Sublayer(
                norms=(norm,),
                blocks=(
                    _router(config, scaled=not first),
                    _experts(config),
                    _residual_scale(config, "dense_mlp"),
                ),
            ),
        )
    )


def _attention(config: Config, window: int | None) -> Attention:
    """Half of each value comes from the token before, so there must be an even number of them."""
    bias = config.bool("attention_bias")
    attention = grouped_query_attention(config, qkv_bias=bias, out_bias=bias, window=window)
    if attention.kv_heads * attention.head_dim % 2:
        raise config.error("num_key_value_heads", "times head_dim must be even")
    return attention


def _convolutions(config: Config, attention: Attention) -> Opaque:
    """Queries and keys pass one convolution by feature and one by head; keys have temperatures."""
    heads, d = attention.heads + attention.kv_heads, attention.head_dim
    by_feature, by_head = config.int("cca_time0"), config.int("cca_time1")
    return opaque(
        "convolutions",
        "attention",
        *depthwise_convolution("depthwise", heads * d, by_feature, bias=True),
        weight("grouped", heads * d, d, by_head),
        weight("grouped_bias", heads * d),
        weight("temperature", attention.kv_heads),
    )


def _residual_scale(config: Config, bucket: Bucket) -> Opaque:
    """Scale and shift of a block's output and of the residual."""
    return opaque("residual_scale", bucket, weight("scale", 4, config.int("hidden_size")))


def _router(config: Config, *, scaled: bool) -> Opaque:
    """What comes before the router's matrix [E + 1, r], whose last class is no expert."""
    hidden, width = config.int("hidden_size"), config.int("router_hidden_size")
    return opaque(
        "router_network",
        "router",
        *linear("down_proj", width, hidden, bias=True, bucket="dense_mlp"),
        weight("norm", width, bucket="norm"),
        *linear("fc1", width, width, bias=True),
        *linear("fc2", width, width, bias=True),
        *((weight("router_states_scale", width),) if scaled else ()),
    )


def _experts(config: Config) -> Experts:
    if config.int("num_experts_per_tok") != 1:
        raise config.error("num_experts_per_tok", "must be 1")
    return Experts(
        experts=config.int("num_experts"),
        top_k=1,
        ffn=config.int("moe_intermediate_size"),
        router_width=config.int("num_experts") + 1,
        router_input=config.int("router_hidden_size"),
    )


PARSERS = {"zaya": zaya}
