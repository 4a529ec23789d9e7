"""Mixture of experts: what it owns. Symbols: h hidden, E experts, f_e expert width, f_s shared."""

from collections.abc import Iterator

from trainfit.estimator.ledger import Networks, Split, Weight
from trainfit.specs.blocks import Experts


def weights(block: Experts, hidden: int) -> Iterator[Weight]:
    """Router and latent projections stay whole; experts are divided over ep x etp.

    Source: megatron/core/transformer/moe (router.py, experts.py, shared_experts.py,
    moe_layer.py for the latent projections).
    """
    width = block.latent or hidden
    inputs = 2 if block.gated else 1
    scores = block.router_width or block.experts
    routed = block.router_input or hidden
    yield Weight("router", scores * routed, "router", Split.REPLICATED)
    if block.router_bias:
        yield Weight("router_bias", scores, "router", Split.REPLICATED, vector=True)
    if block.correction_bias:
        yield Weight(
            "correction_bias",
            block.experts,
            "router",
            Split.REPLICATED,
            trainable=False,
            vector=True,
        )
    per_expert = (inputs + 1) * width * block.ffn
    yield Weight(
        "experts",
        block.experts * per_expert,
        "routed_experts",
        Split.EXPERT,
        networks=Networks(block.experts, inputs),
    )
    if block.bias:
        biases = block.experts * (inputs * block.ffn + width)
        yield Weight("experts_bias", biases, "routed_experts", Split.EXPERT, vector=True)
    if block.latent is not None:
        latent = 2 * hidden * block.latent + int(block.latent_bias) * (hidden + block.latent)
        yield Weight(
            "latent", latent, block.latent_bucket, Split.REPLICATED, networks=Networks(1, 1)
        )
    if block.shared_ffn is not None:
        yield from _shared(block, hidden, block.shared_ffn)


def _shared(block: Experts, hidden: int, width: int) -> Iterator[Weight]:
    inputs = 2 if block.shared_gated else 1
    numel = (inputs + 1) * hidden * width
    yield Weight(
        "shared_experts", numel, "shared_experts", Split.TENSOR, networks=Networks(1, inputs)
    )
    if block.shared_bias:
        yield Weight("shared_fc1_bias", inputs * width, "shared_experts", Split.TENSOR, vector=True)
        yield Weight("shared_fc2_bias", hidden, "shared_experts", Split.REPLICATED, vector=True)
    if block.shared_gate:
        yield Weight("shared_gate", hidden, "shared_experts", Split.REPLICATED)
