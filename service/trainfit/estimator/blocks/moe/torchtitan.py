"""Mixture of experts as torchtitan runs it: rows sorted by expert, exchanged among expert-parallel
ranks, three grouped products, and rows that are weighted in fp32 and added up for each token.

Symbols: estimator.legend; T rows that a rank sends, and has after the exchange where routing is
balanced; f_e and f_s widths of a routed expert and of the shared ones. Sources: torchtitan's
models/common/moe.py, models/common/token_dispatcher.py and models/common/moe_sharding.py.
"""

from collections.abc import Iterator

from trainfit.estimator.blocks.mlp.pytorch import activate
from trainfit.estimator.blocks.moe import pytorch
from trainfit.estimator.blocks.moe.exchanged import FP32, INDEX_BYTES
from trainfit.estimator.ledger import (
    Kind,
    Operation,
    Role,
    Row,
    backward,
    forward,
    gradient,
    held,
    saved,
)
from trainfit.estimator.legend import PytorchLegend
from trainfit.resolve.plan import PytorchPlan
from trainfit.specs.blocks import Experts


def keeps_input(block: Experts, sizes: PytorchLegend) -> bool:
    """Whether a product of the block keeps what it reads. The router keeps a copy in fp32."""
    if sizes.bytes == FP32:
        return pytorch.keeps_input(block, sizes)
    return block.shared_ffn is not None and sizes.keeps_input("gate_proj", "up_proj")


def operations(block: Experts, sizes: PytorchLegend, plan: PytorchPlan) -> tuple[Operation, ...]:
    """Router, dispatch, experts, combination; then the shared experts. Ranks that share experts
    keep their part of the sequence; those that share their width gather it.
    """
    tokens = sizes.n_shard if sizes.e > 1 else sizes.n
    activation = plan.model.traits.activation
    return (
        _router(block, sizes, tokens),
        _dispatch(block, sizes, tokens),
        *_experts(block, sizes, tokens * block.top_k, activation),
        _combine(block, sizes, tokens),
        *pytorch.shared_experts(block, sizes, activation),
    )


def _router(block: Experts, sizes: PytorchLegend, tokens: int) -> Operation:
    """Scores [n, E], multiplied in fp32, and the k best ones of each token."""
    trained = sizes.trains("router")
    scores, numel = FP32 * tokens * block.experts, sizes.h * block.experts
    wide = FP32 * tokens * sizes.h
    return Operation(
        "router",
        (
            held(
                "gathered input [n, h]", sizes.bytes * sizes.h * tokens * (tokens > sizes.n_shard)
            ),
            saved("input in fp32 [n, h]", wide if trained and sizes.bytes < FP32 else 0),
            saved("weight in fp32 [E, h]", FP32 * numel if sizes.bytes < FP32 else 0),
            saved("scores [n, E] fp32", scores),
            saved("choice and its weights [n, k]", (INDEX_BYTES + FP32) * tokens * block.top_k),
            forward("scores and choice of experts [n, E]", 2 * scores),
            backward("gradients of the scores [n, E]", 2 * scores),
            backward("input gradients in both types [n, h]", wide + sizes.bytes * tokens * sizes.h),
            gradient("weight gradient", numel * sizes.gradient_bytes if trained else 0),
        ),
        output=scores,
    )


def _dispatch(block: Experts, sizes: PytorchLegend, tokens: int) -> Operation:
    """A copy of its token for each of k experts, sorted by expert. What arrives from other ranks
    is sorted once more.
    """
    rows = tokens * block.top_k
    gathered = rows * sizes.h * sizes.bytes
    exchanged = gathered if sizes.e > 1 else 0
    orders = 3 if sizes.e > 1 else 2
    return Operation(
        "dispatch",
        (
            saved("orders of the rows [T]", orders * INDEX_BYTES * rows),
            saved("sorted weights [T] fp32", FP32 * rows),
            forward("rows sent, received and sorted [T, h]", gathered + 2 * exchanged),
            backward("gradients of rows, on their way [T, h]", gathered + exchanged),
        ),
        output=exchanged,
        kind=Kind.EXCHANGE,
    )


def _experts(
    block: Experts, sizes: PytorchLegend, rows: int, activation: str
) -> Iterator[Operation]:
    """T rows through E / e experts. The caller keeps what the last product makes until it is
    combined.
    """
    trained = sizes.trains("experts")
    ffn = block.ffn // sizes.x
    gathered, product = rows * sizes.h * sizes.bytes, rows * ffn * sizes.bytes
    made = block.experts // sizes.e * sizes.h * ffn * sizes.gradient_bytes if trained else 0
    kept = (
        saved("gathered rows [T, h]", gathered * trained, Role.FOR_WEIGHT_GRADIENT),
        held("gathered rows that no gradient needs", 0 if trained else gathered),
    )
    if block.gated and not block.bias:
        yield from _gated_by_silu(kept, gathered, product, made, sizes)
    else:
        inputs = 2 if block.gated else 1
        into = backward("gradients of rows and products", gathered + inputs * product)
        tensors = (*kept, into, gradient("weight gradient", inputs * made))
        yield Operation("experts_fc1", tensors, output=inputs * product)
        acts = activate(product, sizes, activation, gated=block.gated)
        yield acts._replace(name="experts_activation")
    yield Operation(
        "experts_fc2",
        (
            saved("activation output [T, f_e]", product * trained, Role.FOR_WEIGHT_GRADIENT),
            held("output [T, h]", gathered),
            backward("output gradient [T, h]", gathered),
            backward("input gradient [T, f_e]", product),
            gradient("weight gradient", made),
        ),
        output=gathered,
    )


def _gated_by_silu(
    kept: tuple[Row, ...], gathered: int, product: int, made: int, sizes: PytorchLegend
) -> Iterator[Operation]:
    """silu(x w1) * (x w3), each product by itself, so that the gradient of x from w3 waits for the
    one from w1.
    """
    yield Operation(
        "experts_w1",
        (
            *kept,
            backward("gradients of rows, and of the product", 2 * gathered + product),
            gradient("weight gradient", made),
        ),
        output=product,
    )
    yield Operation(
        "experts_silu",
        (
            saved("w1's product [T, f_e]", product),
            backward("gradients of input, output and rows", 2 * product + gathered),
        ),
    )
    yield Operation(
        "experts_w3",
        (
            backward("gradients of rows, and of both factors", gathered + 2 * product),
            gradient("weight gradient", made),
        ),
        output=product,
    )
    yield Operation(
        "experts_gate",
        (
            saved("w3's product [T, f_e]", product),
            saved("silu's output [T, f_e]", 0 if sizes.fused else product),
            backward("gradients of output and factors", 3 * product),
        ),
    )


def _combine(block: Experts, sizes: PytorchLegend, tokens: int) -> Operation:
    """Rows in the order in which they were sent, weighted in fp32, narrowed, added up."""
    rows = tokens * block.top_k
    narrow, wide = rows * sizes.h * sizes.bytes, rows * sizes.h * FP32
    exchanged = narrow if sizes.e > 1 else 0
    return Operation(
        "combine",
        (
            saved("rows in fp32 [T, h]", wide),
            forward("rows received, weighted, and narrowed [T, h]", exchanged + wide + narrow),
            forward("sum [n, h]", tokens * sizes.h * sizes.bytes),
            backward("gradients of rows: whole, weighted, of their weights [T, h]", 3 * wide),
        ),
        output=exchanged,
        kind=Kind.EXCHANGE,
    )
