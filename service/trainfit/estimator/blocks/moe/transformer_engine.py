"""Mixture of experts as megatron-core runs it: all-to-all dispatch, grouped GEMM of
TransformerEngine, fused permutation.

Symbols: estimator.legend; T rows that a rank sends to experts, T_r rows that its own experts
receive, f_e and f_s widths of a routed expert and of the shared ones. Source:
megatron/core/transformer/moe (moe_layer.py, router.py, moe_utils.py, token_dispatcher.py,
experts.py, shared_experts.py) and TransformerEngine's permutation.py and grouped_linear.py.
"""

from math import ceil
from typing import NamedTuple

from trainfit.estimator.blocks.mlp.transformer_engine import feed_forward
from trainfit.estimator.ledger import Operation, backward, forward, held, saved
from trainfit.estimator.legend import Legend
from trainfit.resolve.plan import Plan, Routing
from trainfit.specs.blocks import Experts


class Rows(NamedTuple):
    """Rows of the expert matrices on one rank."""

    sent: int
    """T: n' k when no token is dropped, E ceil(n' k f / E) when experts are filled to capacity."""
    received: int
    """T_r: T for balanced routing, gathered over x, times the imbalance."""


def rows_of(block: Experts, sizes: Legend, routing: Routing) -> Rows:
    sent = sizes.n_shard * block.top_k
    if routing.capacity_factor:
        capacity = ceil(sent * routing.capacity_factor / block.experts)
        if routing.pad_to_capacity:
            sent = block.experts * capacity
        else:
            sent = min(sent, block.experts * capacity)
    if routing.pad_to_capacity:
        return Rows(sent, sent * sizes.x)
    return Rows(sent, ceil(sent * routing.imbalance_factor) * sizes.x)


def operations(block: Experts, sizes: Legend, plan: Plan) -> tuple[Operation, ...]:
    """Router, shared experts, permutation, dispatch, experts, combination."""
    rows = rows_of(block, sizes, plan.routing)
    table = [_router(block, sizes, plan.routing)]
    if block.shared_ffn is not None:
        table += _shared_experts(block, block.shared_ffn, sizes)
    table += _dispatch(block, sizes, rows)
    table += _experts(block, sizes, rows, plan.routing)
    table += _combine(block, sizes, rows)
    return tuple(table)


def _router(block: Experts, sizes: Legend, routing: Routing) -> Operation:
    """Scores are fp32; masks and the routing map are one byte an element."""
    scores = sizes.n_shard * (block.router_width or block.experts)
    return Operation(
        "router",
        (
            saved("softmax [n', E]", 4 * scores, "moe"),
            saved("softmax of the auxiliary loss [n', E]", 4 * scores, "moe"),
            saved("masks [n', E] twice", 2 * scores, "moe"),
            saved("probabilities [n', E]", routing.probability_bytes * scores, "moe"),
            saved("routing map [n', E]", scores, "moe"),
            forward("logits [n', E]", 4 * scores),
            backward("gradient of the logits [n', E]", 4 * scores),
        ),
    )


def _shared_experts(block: Experts, width: int, sizes: Legend) -> list[Operation]:
    """Its output is alive during the whole dispatch, until it is added."""
    fc1, activation, fc2 = feed_forward(
        ffn=width // sizes.t,
        gated=block.shared_gated,
        h_in=sizes.h,
        h_out=sizes.h,
        sizes=sizes,
        dropped_by=("moe", "shared_experts"),
    )
    output = held("shared output [n', h]", sizes.act)
    return [
        fc1._replace(name="shared_fc1"),
        activation._replace(name="shared_activation"),
        fc2._replace(name="shared_fc2", tensors=(*fc2.tensors, output)),
    ]


def _dispatch(block: Experts, sizes: Legend, rows: Rows) -> list[Operation]:
    """Permuted and dispatched rows are locals of the MoE forward: alive until it returns."""
    h = block.latent or sizes.h
    sent, received = h * rows.sent * sizes.bytes, h * rows.received * sizes.bytes
    row_map = 4 * sizes.n_shard * (2 * block.experts + 1)
    table = [
        Operation(
            "permute",
            (
                saved("row map [n', 2E + 1] int32", row_map, "moe"),
                held("permuted rows [T, h]", sent),
                backward("gradient of the permuted rows [T, h]", sent),
            ),
        )
    ]
    if block.experts == sizes.e:
        dispatched = saved("dispatched rows = fc1 input [T_r, h]", received, "moe")
        return [*table, Operation("dispatch", (dispatched,))]
    return [
        *table,
        Operation("dispatch", (held("dispatched rows [T_r, h]", received),)),
        Operation(
            "sort_by_local_expert",
            (
                saved("sorted rows = fc1 input [T_r, h]", received, "moe"),
                backward("gradient of the dispatched rows [T_r, h]", 2 * received),
            ),
        ),
    ]


def _experts(block: Experts, sizes: Legend, rows: Rows, routing: Routing) -> list[Operation]:
    """Grouped fc1, activation weighted by the routing probability, grouped fc2."""
    h, width = block.latent or sizes.h, sizes.bytes
    f = block.ffn // sizes.x
    inputs = 2 if block.gated else 1
    received = h * rows.received * width
    product = f * rows.received * width
    weighted = () if block.gated else (saved("activation before its weight", product, "moe"),)
    return [
        Operation(
            "experts_fc1",
            (
                backward("input gradient [T_r, h]", received),
                backward("output gradient [T_r, 2f_e / x]", inputs * product),
            ),
            gemm=(inputs * f, h),
        ),
        Operation(
            "experts_activation",
            (
                saved("fc1 output [T_r, 2f_e / x]", inputs * product, "moe"),
                saved("row probabilities [T_r]", routing.probability_bytes * rows.received, "moe"),
                *weighted,
                backward("gradient of fc1 output [T_r, 2f_e / x]", inputs * product),
                backward("gradient of its own output [T_r, f_e / x]", product),
            ),
        ),
        Operation(
            "experts_fc2",
            (
                saved("activation output [T_r, f_e / x]", product, "moe", "moe_act"),
                forward("output [T_r, h]", received),
                backward("output gradient [T_r, h]", received),
                backward("input gradient [T_r, f_e / x]", product),
            ),
            gemm=(h, f),
        ),
    ]


def _combine(block: Experts, sizes: Legend, rows: Rows) -> list[Operation]:
    """Rows go back the way they came; the caller still holds those it sends."""
    h, width = block.latent or sizes.h, sizes.bytes
    sent, received = h * rows.sent * width, h * rows.received * width
    table = []
    if block.experts != sizes.e:
        table.append(
            Operation(
                "unsort",
                (
                    forward("fc2 output [T_r, h]", received),
                    forward("unsorted rows [T_r, h]", received),
                    backward("gradients of both [T_r, h]", 2 * received),
                ),
            )
        )
    table.append(
        Operation(
            "unpermute",
            (
                forward("unsorted rows [T_r, h]", received),
                forward("combined rows [T, h]", sent),
                forward("result [n', h]", sizes.act),
                backward("gradient of the combined rows [T, h]", sent),
            ),
        )
    )
    return table
