"""Muse Spark's text decoder: gated attention, experts at a latent width, gated residuals."""

from trainfit.architectures.config import Config
from trainfit.architectures.decoder import (
    decoder,
    gated_mlp,
    grouped_query_attention,
    layer_count,
    rms,
)
from trainfit.architectures.layer_patterns import mlp_types
from trainfit.architectures.weights import opaque, weight
from trainfit.architectures.windows import sliding_window, windows
from trainfit.specs.architecture import ModelSpec
from trainfit.specs.blocks import Attention, Block, Experts, Layer, Norm, Opaque, Sublayer

_MUSE_SPARK = {
    "vocab_size": 202048,
    "hidden_size": 8192,
    "intermediate_size": 16384,
    "moe_intermediate_size": 4096,
    "moe_hidden_size": 4096,
    "num_hidden_layers": 62,
    "num_attention_heads": 128,
    "num_key_value_heads": 16,
    "head_dim": 64,
    "num_local_experts": 256,
    "num_experts_per_tok": 8,
    "sliding_window": 2048,
}


def _attention(config: Config, window: int | None) -> Attention:
    bias = config.bool("attention_bias", False)
    return grouped_query_attention(
        config, qkv_bias=bias, out_bias=bias, gate="feature", window=window
    )


def _experts(config: Config) -> tuple[Block, ...]:
    """Experts between two projections to a width of their own, with a norm on either side."""
    width = config.int("moe_hidden_size")
    experts = Experts(
        experts=config.int("num_local_experts"),
        top_k=config.int("num_experts_per_tok"),
        ffn=config.int("moe_intermediate_size"),
        latent=width,
        latent_bucket="dense_mlp",
    )
    norms = opaque("expert_norms", "norm", weight("pre", width), weight("post", width))
    return experts, norms


def _residual_gate(hidden: int) -> Opaque:
    return opaque("residual_gate", "router", weight("gate", hidden))


def muse_spark_text(config: Config) -> ModelSpec:
    """Every fourth layer, counted from the last, sees all tokens. Attention's post-norm is bare."""
    config = config.with_defaults(_MUSE_SPARK)
    total, hidden = layer_count(config), config.int("hidden_size")
    norm, bare = rms(hidden), Norm(kind="rmsnorm", width=hidden, weight=False)
    gate = _residual_gate(hidden)
    mlps: dict[str, tuple[Block, ...]] = {
        "dense": (gated_mlp(config), gate),
        "sparse": (*_experts(config), gate),
    }
    reach = windows(
        config, total, lambda index: (total - 1 - index) % 4 != 0, sliding_window(config)
    )
    layers = [
        Layer(
            sublayers=(
                Sublayer(
                    norms=(norm,), blocks=(_attention(config, window), gate), post_norms=(bare,)
                ),
                Sublayer(norms=(norm,), blocks=mlps[kind], post_norms=(norm,)),
            )
        )
        for window, kind in zip(reach, mlp_types(config, ["sparse"] * total), strict=True)
    ]
    return decoder(config, layers, tied=False, final_norm=norm)


PARSERS = {"muse_spark_text": muse_spark_text}
