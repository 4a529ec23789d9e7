"""Mixtures of experts by the key names in use."""

from trainfit.architectures.config import Config
from trainfit.specs.blocks import Experts


def routed_experts(
    config: Config,
    count: str,
    width: str,
    *,
    top_k: str = "num_experts_per_tok",
    shared_ffn: int = 0,
    shared_bias: bool = False,
    shared_gate: bool = False,
    bias: bool = False,
    router_bias: bool = False,
    correction_bias: bool = False,
) -> Experts:
    """Experts whose number and width stand under the keys `count` and `width`."""
    return Experts(
        experts=config.int(count),
        top_k=config.int(top_k),
        ffn=config.int(width),
        bias=bias,
        router_bias=router_bias,
        correction_bias=correction_bias,
        shared_ffn=shared_ffn or None,
        shared_bias=shared_bias,
        shared_gate=shared_gate,
    )


def deepseek_experts(config: Config, *, shared_bias: bool = False) -> Experts:
    """Routed experts, and shared ones that together are `n_shared_experts` times as wide."""
    shared = config.optional_int("n_shared_experts") or 0
    return routed_experts(
        config,
        "n_routed_experts",
        "moe_intermediate_size",
        shared_ffn=shared * config.int("moe_intermediate_size"),
        shared_bias=shared_bias,
    )
