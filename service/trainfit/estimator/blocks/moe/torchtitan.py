"""Mixture of experts as torchtitan runs it: rows sorted by expert, exchanged among expert-parallel
ranks, three grouped products, and rows that are weighted in fp32 and added up for each token.

Symbols: estimator.legend; T rows that a rank sends, and has after the exchange where routing is
balanced; f_e and f_s widths of a routed expert and of the shared ones. Sources: torchtitan's
models/common/moe.py, models/common/token_dispatcher.py and models/common/moe_sharding.py.
"""

from typing import NamedTuple

from trainfit.estimator.blocks.moe.grouped import (
    first_product,
    multiplies,
    sends,
    shared_experts,
    weight_gradients,
)
from trainfit.estimator.demands import Product
from trainfit.estimator.ledger import OperationKind, OperationPeak, Tensors
from trainfit.estimator.operations.pytorch import Modules
from trainfit.estimator.operations.widths import FP32, INT64
from trainfit.estimator.program import highest
from trainfit.estimator.tensors import Tensor
from trainfit.specs.blocks import Experts

HONOURS = frozenset({"shared_ffn", "shared_gate"})


def mixture_of_experts(step: Modules, x: Tensor, block: Experts) -> None:
    """Router, dispatch, experts, combination; then the shared experts. Ranks that share experts
    keep their part of the sequence; those that share their width gather it.
    """
    tokens = step.sizes.n_shard if step.sizes.e > 1 else step.sizes.n
    (rows,) = step.named(T=tokens * block.top_k)
    _router(step, x, block, tokens)
    _dispatch(step, rows)
    _experts(step, block, rows)
    _combine(step, rows, tokens)
    shared_experts(step, x, block)


def _router(step: Modules, x: Tensor, block: Experts, tokens: int) -> None:
    """Scores [n, E], multiplied in fp32, and the k best ones of each token. It keeps a copy of its
    input, unless that is in fp32.
    """
    sizes, h = step.sizes, step.sizes.h
    experts, k = step.named(E=block.experts, k=block.top_k)
    scores = step.tensor("scores", tokens, experts, width=FP32)
    saves = [
        scores,
        step.tensor("chosen experts", tokens, k, width=INT64),
        step.tensor("their weights", tokens, k, width=FP32),
    ]
    wide = step.tensor("input in fp32", tokens, h, width=FP32)
    narrow = sizes.bytes < FP32
    if narrow:
        saves.append(step.tensor("weight in fp32", experts, h, width=FP32))
    trained = sizes.trains("router")
    if trained:
        saves += (wide,) if narrow else step.shared(x)
    gathered = (step.tensor("gathered input", tokens, h),) if tokens > sizes.n_shard else ()
    gradient = step.tensor("weight gradient", experts, h, width=sizes.gradient_bytes)
    step.operation(
        "router",
        saves=saves,
        holds=gathered,
        borrows=(step.tensor("scores and choice of experts", 2, *scores.shape, width=FP32),),
        backward=(
            step.tensor("gradients of the scores", 2, *scores.shape, width=FP32),
            step.tensor("input gradient in fp32", tokens, h, width=FP32),
            step.tensor("input gradient", tokens, h),
        ),
        leaves=(gradient,) if trained else (),
        output=scores,
        demands=(Product(tokens, h, experts, 0, 1 + trained, narrow=False),),
    )


def _dispatch(step: Modules, rows: int) -> None:
    """A copy of its token for each of k experts, sorted by expert. What arrives from other ranks
    is sorted once more.
    """
    h, exchanges = step.sizes.h, step.sizes.e > 1
    received = step.tensor("rows received", rows, h)
    step.operation(
        "dispatch",
        saves=(
            step.tensor("orders of the rows", 3 if exchanges else 2, rows, width=INT64),
            step.tensor("sorted weights", rows, width=FP32),
        ),
        borrows=(step.tensor("rows sent, received and sorted", 3 if exchanges else 1, rows, h),),
        backward=(step.tensor("gradients of rows, on their way", 2 if exchanges else 1, rows, h),),
        output=received if exchanges else None,
        kind=OperationKind.EXCHANGE,
        demands=sends(step, rows, h),
    )


def _experts(step: Modules, block: Experts, rows: int) -> None:
    """T rows through E / e experts. The caller keeps what the last product makes until it is
    combined.
    """
    trained = step.sizes.trains("experts")
    up, down = weight_gradients(step, block, step.sizes.h)
    x = step.tensor("gathered rows", rows, step.sizes.h)
    if block.gated and not block.bias:
        act = _gated_by_silu(step, block, x)
    else:
        gate_up, inputs = first_product(step, block, rows)
        narrow = _narrow_copies(step, block, x, gate_up)
        step.operation(
            "experts_fc1",
            for_weight=narrow.kept * trained,
            holds=(x,),
            borrows=narrow.forward,
            backward=narrow.backward.beside(step.gradient(x), step.gradient(gate_up)),
            leaves=up,
            output=gate_up,
            demands=(multiplies(step, block, rows, gate_up.shape[-1], step.sizes.h),),
        )
        act = step.activation(*inputs, name="experts_activation")
    y = step.tensor("output", *x.shape)
    narrow = _narrow_copies(step, block, act, y)
    step.operation(
        "experts_fc2",
        for_weight=narrow.kept * trained,
        holds=(y,),
        borrows=narrow.forward,
        backward=narrow.backward.beside(step.gradient(y), step.gradient(act)),
        leaves=down,
        output=y,
        demands=(multiplies(step, block, rows, act.shape[-1], step.sizes.h),),
    )


class NarrowCopies(NamedTuple):
    """What a grouped product keeps of its input, and what it copies in fp8 forward and backward."""

    kept: Tensors
    forward: Tensors
    backward: OperationPeak


def _narrow_copies(step: Modules, block: Experts, x: Tensor, y: Tensor) -> NarrowCopies:
    """Of the product of x [T, w] that makes y [T, v] by matrices [E / e, w, v]: rows and matrices,
    then the gradient of y and the matrices, then that and the rows by columns. It keeps its input
    as it is, of which a compiled graph keeps the copy by columns. Source: torchao's
    prototype/moe_training/mxfp8_grouped_mm.py (_MXFP8GroupedMM).
    """
    narrow = step.way.step.narrow_experts
    if narrow is None:
        return NarrowCopies((x,), (), OperationPeak(()))
    (rows, inputs), features = x.shape, y.shape[-1]

    def copy(name: str, *shape: int) -> Tensor:
        return step.tensor(name, *shape, width=narrow.copy_bytes)

    read, by_columns = copy("narrow rows", rows, inputs), copy("their columns", rows, inputs)
    matrices = copy("narrow matrices", block.experts // step.sizes.e, inputs, features)
    of_y, columns_of_y = (
        copy(name, rows, features) for name in ("narrow gradient", "narrow gradient, by columns")
    )
    keeps = narrow.keeps_columns
    return NarrowCopies(
        (by_columns if keeps else x,),
        (read, matrices),
        highest((of_y, matrices), (columns_of_y, *(() if keeps else (by_columns,)))),
    )


def _gated_by_silu(step: Modules, block: Experts, x: Tensor) -> Tensor:
    """silu(x w1) * (x w3), each product by itself, so that the gradient of x from w3 waits for the
    one from w1.
    """
    rows, (f,) = x.shape[0], step.named(f_e=block.ffn)
    f //= step.sizes.x
    of_one_matrix = weight_gradients(step, block, step.sizes.h)[1]
    gate, up, silu, y = (
        step.tensor(name, rows, f)
        for name in ("w1's product", "w3's product", "silu's output", "activation output")
    )
    of_x = step.gradient(x)
    narrow = _narrow_copies(step, block, x, gate)
    step.operation(
        "experts_w1",
        for_weight=narrow.kept * step.sizes.trains("experts"),
        holds=(x,),
        borrows=narrow.forward,
        backward=narrow.backward.beside(of_x, of_x, step.gradient(gate)),
        leaves=of_one_matrix,
        output=gate,
        demands=(multiplies(step, block, rows, f, step.sizes.h),),
    )
    step.operation(
        "experts_silu",
        saves=(gate,),
        backward=(step.gradient(gate), step.gradient(silu), of_x),
    )
    step.operation(
        "experts_w3",
        borrows=narrow.forward,
        backward=narrow.backward.beside(of_x, step.gradient(silu), step.gradient(up)),
        leaves=of_one_matrix,
        output=up,
        demands=(multiplies(step, block, rows, f, step.sizes.h),),
    )
    step.operation(
        "experts_gate",
        saves=(up,) if step.sizes.fused else (up, silu),
        backward=(step.gradient(y), step.gradient(up), step.gradient(silu)),
    )
    return y


def _combine(step: Modules, rows: int, tokens: int) -> None:
    """Rows in the order in which they were sent, weighted in fp32, narrowed, added up."""
    h = step.sizes.h
    received = step.tensor("rows received", rows, h)
    exchanged = (received,) if step.sizes.e > 1 else ()
    step.operation(
        "combine",
        saves=(step.tensor("rows in fp32", rows, h, width=FP32),),
        borrows=(
            *exchanged,
            step.tensor("weighted rows in fp32", rows, h, width=FP32),
            step.tensor("weighted rows", rows, h),
            step.tensor("sum", tokens, h),
        ),
        backward=(
            step.tensor(
                "gradients of rows: whole, weighted, of their weights", 3, rows, h, width=FP32
            ),
        ),
        output=received if exchanged else None,
        kind=OperationKind.EXCHANGE,
        demands=sends(step, rows, h),
    )
