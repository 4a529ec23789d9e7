"""Mixture of experts as modules of PyTorch, all experts in grouped products.

Symbols: estimator.legend; T rows of the expert matrices, f_e and f_s widths of a routed expert and
of the shared ones. Sources: transformers' integrations/moe.py (grouped_mm), modeling_qwen3_moe.py
and, where ranks share experts, distributed/expert_parallel.py (AllToAllEP).
"""

from collections.abc import Iterator

from trainfit.estimator.blocks.linear.pytorch import linear
from trainfit.estimator.blocks.mlp.pytorch import activate
from trainfit.estimator.blocks.moe import exchanged
from trainfit.estimator.blocks.moe.exchanged import FP32, INDEX_BYTES, ROUTED
from trainfit.estimator.ledger import Operation, Role, backward, forward, gradient, held, saved
from trainfit.estimator.legend import PytorchLegend
from trainfit.resolve.plan import PytorchPlan
from trainfit.specs.architecture import Implementation
from trainfit.specs.blocks import Experts


def keeps_input(block: Experts, sizes: PytorchLegend) -> bool:
    """Whether a product of the block keeps what it reads."""
    shared = () if block.shared_ffn is None else ("gate_proj", "up_proj")
    return sizes.keeps_input(*shared, "router")


def operations(block: Experts, sizes: PytorchLegend, plan: PytorchPlan) -> tuple[Operation, ...]:
    """Router, gathering, experts, weighted sum; the shared experts beside them. The inputs of
    experts are narrowed where FSDP gathers these by themselves in a narrower type.
    """
    by = plan.model.implementation
    activation = by.experts_activation or plan.model.traits.activation
    narrowed = sizes.e > 1 and plan.step.states.gathered < plan.step.states.parameters
    in_full = by.router_dtype == "fp32" and not narrowed
    routed = exchanged.experts if sizes.e > 1 else _experts
    rows = routed(block, sizes, activation, in_full=in_full)
    return (
        _router(block, sizes, by),
        *[each._replace(modules=(ROUTED,)) for each in rows],
        *shared_experts(block, sizes, activation),
    )


def _router(block: Experts, sizes: PytorchLegend, by: Implementation) -> Operation:
    """Scores [n, E] in fp32, and the k chosen ones of each token."""
    n = sizes.n
    scores = n * (block.router_width or block.experts)
    numel = sizes.h * (block.router_width or block.experts)
    copied = by.router_dtype == "fp32" and sizes.bytes < FP32
    trained = sizes.trains("router")
    return Operation(
        "router",
        (
            saved("input in fp32 [n, h]", FP32 * n * sizes.h if copied and trained else 0),
            saved("softmax [n, E] fp32", FP32 * scores),
            saved(
                "chosen experts and their weights [n, k]", (INDEX_BYTES + FP32) * n * block.top_k
            ),
            forward("logits [n, E]", sizes.bytes * scores),
            backward("gradients of the scores [n, E]", 2 * FP32 * scores),
            gradient("weight gradient", numel * sizes.gradient_bytes if trained else 0),
        ),
        output=sizes.bytes * scores,
    )


def _experts(
    block: Experts, sizes: PytorchLegend, activation: str, *, in_full: bool
) -> Iterator[Operation]:
    """fc1, activation and fc2 of the T = n k rows that tokens are copied to. Weights of rows that
    are fp32 make their products so.
    """
    width, h = sizes.bytes, block.latent or sizes.h
    rows = sizes.n * block.top_k
    inputs = 2 if block.gated else 1
    trained = sizes.trains("experts")
    gathered, product = rows * h * width, rows * block.ffn * width
    weighted = rows * h * (FP32 if in_full else width)
    made = block.experts * h * block.ffn * sizes.gradient_bytes if trained else 0
    yield Operation(
        "experts_fc1",
        (
            saved("gathered rows [T, h]", gathered * trained, Role.FOR_WEIGHT_GRADIENT),
            held("gathered rows that no gradient needs", 0 if trained else gathered),
            saved("order of the rows [T]", 3 * INDEX_BYTES * rows),
            backward("input gradient [T, h]", gathered),
            backward("output gradient [T, 2f_e]", inputs * product),
            gradient("weight gradient", inputs * made),
        ),
        output=inputs * product,
    )
    yield activate(product, sizes, activation, gated=block.gated)._replace(
        name="experts_activation"
    )
    yield Operation(
        "experts_fc2",
        (
            saved("activation output [T, f_e]", product * trained, Role.FOR_WEIGHT_GRADIENT),
            backward("output gradient [T, h]", gathered),
            backward("input gradient [T, f_e]", product),
            gradient("weight gradient", made),
        ),
        output=gathered,
    )
    yield Operation(
        "weighted_sum",
        (
            saved("output [T, h]", gathered),
            forward("weighted output, sorted by expert and by token [T, h]", 2 * weighted),
            backward("gradients of rows, in order and weighted [T, h]", 3 * weighted),
        ),
    )


def shared_experts(block: Experts, sizes: PytorchLegend, activation: str) -> Iterator[Operation]:
    """A feed-forward network that every token passes."""
    if block.shared_ffn is None:
        return
    n, h, ffn = sizes.n, sizes.h, block.shared_ffn // sizes.t
    if block.shared_gated:
        yield linear("gate_proj", n, h, ffn, sizes, reads="residual", joins=True)
    yield linear("up_proj", n, h, ffn, sizes, reads="residual", joins=True)
    yield activate(ffn * n * sizes.bytes, sizes, activation, gated=block.shared_gated)
    yield linear("down_proj", n, ffn, h, sizes, reads="own")
    if block.shared_gate:
        output = saved("output and its gate [n, h]", n * h * sizes.bytes)
        yield Operation("shared_expert_gate", (output,))
