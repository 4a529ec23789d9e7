"""Ling and Ring (Bailing) V1 and V2: grouped-query attention, routed and shared experts."""

from trainfit.architectures.config import Config
from trainfit.architectures.decoder import (
    gated_mlp,
    grouped_query_attention,
    layer_count,
    pre_norm_decoder,
    rms,
)
from trainfit.architectures.experts import routed_experts
from trainfit.specs.architecture import ModelSpec
from trainfit.specs.blocks import Block


def _feed_forwards(config: Config, total: int) -> list[Block]:
    """Shared experts may have a width of their own; dense layers need not exist."""
    dense = min(config.int("first_k_dense_replace", 0), total)
    mlps: list[Block] = [gated_mlp(config)] * dense if dense > 0 else []
    width = config.optional_int("moe_shared_expert_intermediate_size")
    experts = routed_experts(
        config,
        "num_experts",
        "moe_intermediate_size",
        shared_ffn=config.int("num_shared_experts", 0)
        * (width if width is not None else config.int("moe_intermediate_size")),
    )
    return mlps + [experts] * (total - len(mlps))


def bailing_moe(config: Config) -> ModelSpec:
    """Remote code, whose class defaults are no model's: dimensions must be given."""
    total = layer_count(config)
    bias = config.bool("use_bias", True)
    attention = grouped_query_attention(
        config,
        qkv_bias=bias or config.bool("use_qkv_bias", False),
        out_bias=bias,
        qk_norm="head" if config.bool("use_qk_norm", False) else None,
    )
    norm = rms(config.int("hidden_size"))
    return pre_norm_decoder(config, norm, [attention] * total, _feed_forwards(config, total))


PARSERS = {"bailing_moe": bailing_moe}
