"""Doge: dynamic masks from the values, scaled residuals, and experts of one row each."""

from math import isqrt

from trainfit.architectures.config import Config
from trainfit.architectures.decoder import (
    decoder,
    gated_mlp,
    grouped_query_attention,
    layer_count,
    rms,
)
from trainfit.specs.architecture import ModelSpec
from trainfit.specs.blocks import Attention, Block, Bucket, Layer, NamedWeight, Opaque, Sublayer

_DOGE = {
    "vocab_size": 32768,
    "hidden_size": 1024,
    "intermediate_size": 2048,
    "num_hidden_layers": 32,
    "num_attention_heads": 8,
    "num_experts": 16384,
}


def _opaque(name: str, bucket: Bucket, **shapes: tuple[int, ...]) -> Opaque:
    weights = tuple(NamedWeight(name=name, shape=shape) for name, shape in shapes.items())
    return Opaque(name=name, bucket=bucket, weights=weights)


def _dynamic_mask(attention: Attention, *, bias: bool) -> Opaque:
    """One score per kv head from all values, and its scale."""
    groups = attention.kv_heads
    shapes: dict[str, tuple[int, ...]] = {
        "A": (groups,),
        "dt_proj": (groups, groups * attention.head_dim),
    }
    if bias:
        shapes["dt_proj_bias"] = (groups,)
    return _opaque("dynamic_mask", "attention", **shapes)


def _cross_domain_experts(config: Config, hidden: int) -> tuple[Opaque, ...]:
    """Experts that are one row of two tables each, found by a product of two key sets."""
    experts = config.int("num_experts")
    if experts < 1:
        raise config.error("num_experts", "must be positive")
    tables = _opaque(
        "expert_tables",
        "dense_mlp",
        down_embed=(experts, hidden),
        up_embed=(experts, hidden),
    )
    return _opaque("router", "router", router_gate=(2 * isqrt(experts), hidden)), tables


def doge(config: Config) -> ModelSpec:
    config = config.with_defaults(_DOGE)
    bias = config.bool("attention_bias", False)
    hidden = config.int("hidden_size")
    norm = rms(hidden)
    attention = grouped_query_attention(config, qkv_bias=bias, out_bias=bias, qk_norm="head")
    mlp = gated_mlp(config, bias=config.bool("mlp_bias", False))
    # Each branch scales its residual; the second vector bears attention's name and is filed so.
    residual = _opaque("input_residual", "other", scale=(hidden,))
    post_residual = _opaque("post_attention_residual", "attention", scale=(hidden,))
    feed_forward: tuple[Block, ...] = (mlp, post_residual)
    if config.bool("is_moe", False):
        feed_forward = (*feed_forward, *_cross_domain_experts(config, hidden))
    attend = (attention, _dynamic_mask(attention, bias=bias), residual)
    layer = Layer(
        sublayers=(
            Sublayer(norms=(norm,), blocks=attend),
            Sublayer(norms=(norm,), blocks=feed_forward),
        )
    )
    return decoder(config, [layer] * layer_count(config), tied=False, final_norm=norm)


PARSERS = {"doge": doge}
