"""Tokens reach their experts by an all-to-all over expert-parallel ranks.

Symbols: estimator.legend; T rows sent, T_a rows that arrive, T_r those gathered over x. Permuted
and dispatched rows are locals of the MoE forward: alive until it returns. Source:
megatron/core/transformer/moe (token_dispatcher.py, moe_layer.py, moe_utils.py) and
TransformerEngine's permutation.py.
"""

from trainfit.estimator.blocks.moe.permuted import added_up
from trainfit.estimator.blocks.moe.rows import Rows
from trainfit.estimator.demands import Collective
from trainfit.estimator.ledger import OperationKind
from trainfit.estimator.operations.transformer_engine import TransformerEngine
from trainfit.estimator.operations.widths import BYTE, INT32, INT64
from trainfit.estimator.tensors import Tensor
from trainfit.resolve.megatron.plan import OFFLOADED
from trainfit.specs.blocks import Experts

FC1 = (OFFLOADED + "expert_fc1",)


def dispatch(step: TransformerEngine, block: Experts, rows: Rows) -> Tensor:
    """Permute by expert, exchange, gather over x, sort by local expert: the rows [T_r, h] that
    fc1 reads.
    """
    sizes, h = step.sizes, block.latent or step.sizes.h
    sent, arrived, received = step.named(T=rows.sent, T_a=rows.arrived, T_r=rows.received)
    permuted = step.tensor("permuted rows", sent, h)
    saves, borrows = _map(step, block, sent)
    step.operation(
        "permute",
        kind=OperationKind.PERMUTATION,
        saves=saves,
        borrows=borrows,
        holds=(permuted,),
        backward=(step.gradient(permuted),),
    )
    dispatched = step.tensor("dispatched rows", arrived, h, dropped_by=FC1)
    step.operation(
        "dispatch",
        kind=OperationKind.EXCHANGE,
        holds=(dispatched,),
        demands=exchanged(step, sent * h, received * h),
    )
    if not sorts(block, step):
        return dispatched
    by_expert = step.tensor("rows by expert", received, h, dropped_by=FC1)
    gathered = step.tensor("gathered rows", received, h)
    step.operation(
        "sort_by_local_expert",
        makes=(by_expert,),
        borrows=(gathered,) if sizes.x > 1 else (),
        backward=(step.gradient(gathered), step.gradient(by_expert)),
    )
    return by_expert


def combine(step: TransformerEngine, block: Experts, rows: Rows, output: Tensor) -> None:
    """Rows go back the way they came; the caller still holds those it sends."""
    sizes, h = step.sizes, block.latent or step.sizes.h
    sent, arrived = step.named(T=rows.sent, T_a=rows.arrived)
    back = output
    if sorts(block, step):
        back = unsorted = step.tensor("unsorted rows", *output.shape)
        step.operation(
            "unsort",
            borrows=(output, unsorted),
            backward=(step.gradient(output), step.gradient(unsorted)),
        )
    if sizes.x > 1:
        back = step.tensor("rows to send", arrived, h)
    combined = step.tensor("combined rows", sent, h)
    kept, borrowed = added_up(step, combined)
    step.operation(
        "unpermute",
        kind=OperationKind.EXCHANGE,
        saves=kept,
        borrows=(
            back,
            *(() if kept else (combined,)),
            *borrowed,
            step.tensor("result", sizes.n_shard, h),
        ),
        backward=(step.gradient(combined),),
        demands=exchanged(step, sent * h, output.shape[0] * h),
    )


def exchanged(
    step: TransformerEngine, sent: int, received: int, copies: int = 1
) -> tuple[Collective, ...]:
    """So many elements sent to the ranks that share the experts, and the same gathered by those
    that share one; likewise on their way back.
    """
    sent, received = step.sizes.bytes * sent, step.sizes.bytes * received
    shared = Collective("etp", "gather", received, received)
    return Collective("ep", "all_to_all", sent, sent, copies), *(shared,) * (step.sizes.x > 1)


def sorts(block: Experts, step: TransformerEngine) -> bool:
    """Whether rows that arrive are of several experts, or of several ranks that share one."""
    return block.experts != step.sizes.e or step.sizes.x > 1


def _map(
    step: TransformerEngine, block: Experts, sent: int
) -> tuple[tuple[Tensor, ...], tuple[Tensor, ...]]:
    """Where every row goes, and what finding that borrows: one int32 map when fused; else an
    int64 index into the tokens, and one into the routing map for the probabilities.
    """
    (experts,) = step.named(E=block.experts)
    tokens = step.sizes.n_shard
    if step.run.routing.permute_fusion:
        return (step.tensor("row map", tokens, 2 * experts + 1, width=INT32),), ()
    indices = step.tensor("token and probability indices", 2, sent, width=INT64)
    borrows = (
        step.tensor("sorted routing map", tokens, experts, width=BYTE),
        step.tensor("its indices", tokens, experts, width=INT64),
    )
    return (indices,), borrows
