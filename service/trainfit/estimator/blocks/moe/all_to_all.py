"""Tokens reach their experts by an all-to-all over expert-parallel ranks.

Symbols: estimator.legend; T rows sent, T_a rows that arrive, T_r those gathered over x. Permuted
and dispatched rows are locals of the MoE forward: alive until it returns. Source:
megatron/core/transformer/moe (token_dispatcher.py, moe_layer.py, moe_utils.py) and
TransformerEngine's permutation.py.
"""

from trainfit.estimator.blocks.moe.rows import Rows
from trainfit.estimator.ledger import Operation, Tensor, backward, forward, held, saved
from trainfit.estimator.legend import Legend
from trainfit.resolve.plan import OFFLOADED, Routing
from trainfit.specs.blocks import Experts

FC1 = OFFLOADED + "expert_fc1"
INDEX_BYTES = 8
"""Unfused permutation keeps int64 indices."""


def dispatch(block: Experts, sizes: Legend, rows: Rows, routing: Routing) -> list[Operation]:
    """Permute by expert, exchange, gather over x, sort by local expert."""
    h, width = block.latent or sizes.h, sizes.bytes
    sent, arrived, received = (h * count * width for count in rows)
    permute = Operation(
        "permute",
        (
            *_map(block, sizes, rows, routing),
            held("permuted rows [T, h]", sent),
            backward("gradient of the permuted rows [T, h]", sent),
        ),
    )
    fc1_input = saved("fc1 input [T_r, h]", sizes.kept(received), FC1)
    if block.experts == sizes.e and sizes.x == 1:
        whole = arrived if sizes.copied(arrived) else 0
        exchanged = (fc1_input, held("dispatched rows [T_a, h] beside their fp8 copy", whole))
        return [permute, Operation("dispatch", exchanged)]
    return [
        permute,
        Operation("dispatch", (held("dispatched rows [T_a, h]", arrived),)),
        Operation(
            "sort_by_local_expert",
            (
                fc1_input,
                forward("gathered rows [T_r, h]", received if sizes.x > 1 else 0),
                backward("gradients of both orders [T_r, h]", 2 * received),
            ),
        ),
    ]


def _map(block: Experts, sizes: Legend, rows: Rows, routing: Routing) -> tuple[Tensor, ...]:
    """Where every row goes: one int32 map when fused; else an index into the tokens and one into
    the routing map for the probabilities.
    """
    if routing.permute_fusion:
        return (saved("row map [n', 2E + 1] int32", 4 * sizes.n_shard * (2 * block.experts + 1)),)
    sorting = (INDEX_BYTES + 1) * sizes.n_shard * block.experts
    return (
        saved("token and probability indices [T] int64", 2 * INDEX_BYTES * rows.sent),
        forward("sorted routing map [n', E] with its indices", sorting),
    )


def combine(block: Experts, sizes: Legend, rows: Rows) -> list[Operation]:
    """Rows go back the way they came; the caller still holds those it sends."""
    h, width = block.latent or sizes.h, sizes.bytes
    sent, arrived, received = (h * count * width for count in rows)
    table = []
    if block.experts != sizes.e or sizes.x > 1:
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
                forward("rows to send [T_a, h]", arrived),
                forward("combined rows [T, h]", sent),
                forward("result [n', h]", sizes.act),
                backward("gradient of the combined rows [T, h]", sent),
            ),
        )
    )
    return table
