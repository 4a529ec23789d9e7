"""Every rank gathers all tokens of its e x group and keeps the rows of its own experts.

Symbols: estimator.legend; n_g = n' e x gathered tokens, E_l local experts, T_r rows of the local
experts. Source: megatron/core/transformer/moe/token_dispatcher.py (MoEAllGatherTokenDispatcher);
the gathered tokens lie in a global buffer, which `gather_buffer` counts.
"""

from trainfit.estimator.blocks.moe.permuted import added_up
from trainfit.estimator.blocks.moe.rows import Rows
from trainfit.estimator.demands import Collective
from trainfit.estimator.ledger import OperationKind
from trainfit.estimator.legend import Legend
from trainfit.estimator.operations.transformer_engine import TransformerEngine
from trainfit.estimator.operations.widths import BYTE, INT64
from trainfit.estimator.tensors import Tensor
from trainfit.resolve.megatron.plan import OFFLOADED
from trainfit.specs.blocks import Experts

FC1 = (OFFLOADED + "expert_fc1",)


def dispatch(step: TransformerEngine, block: Experts, rows: Rows) -> Tensor:
    """Gather tokens, probabilities and routing map; pick the rows [T_r, h] of local experts."""
    sizes, h = step.sizes, block.latent or step.sizes.h
    experts, received = step.named(E=block.experts, T_r=rows.received)
    gathered, local = _gathered(sizes), experts // sizes.e
    width = step.run.routing.probability_bytes
    borrows: list[Tensor] = []
    if sizes.e * sizes.x > 1:
        borrows.append(step.tensor("gathered probabilities", gathered, experts, width=width))
        borrows.append(step.tensor("gathered routing map", gathered, experts, width=BYTE))
    step.operation(
        "gather",
        borrows=tuple(borrows),
        backward=(step.tensor("gradient of the gathered tokens", gathered, h),),
        demands=(_whole(step, h),),
    )
    permuted = step.tensor("permuted rows", received, h, dropped_by=FC1)
    step.operation(
        "permute",
        kind=OperationKind.PERMUTATION,
        makes=(permuted,),
        saves=(
            step.tensor("local routing map, twice", 2, gathered, local, width=BYTE),
            step.tensor("local probabilities", gathered, local, width=width),
            step.tensor("token indices", received, width=INT64),
        ),
        backward=(step.gradient(permuted),),
    )
    return permuted


def combine(step: TransformerEngine, block: Experts, rows: Rows, output: Tensor) -> None:  # noqa: ARG001
    """Rows are added into [n_g, h], which is reduced and scattered."""
    sizes = step.sizes
    added = step.tensor("sum over experts", _gathered(sizes), output.shape[-1])
    kept, borrowed = added_up(step, output)
    step.operation(
        "unpermute",
        makes=(added,),
        saves=kept,
        borrows=(output, *borrowed),
        backward=(step.gradient(added), step.gradient(output)),
    )
    result = step.tensor("result", sizes.n_shard, output.shape[-1])
    step.operation("combine", borrows=(added, result), demands=(_whole(step, output.shape[-1]),))


def gather_buffer(block: Experts, sizes: Legend) -> int:
    """Bytes of the global buffer [n_g, h] that stays once it was used."""
    if sizes.e * sizes.x == 1:
        return 0
    return (block.latent or sizes.h) * _gathered(sizes) * sizes.bytes


def _whole(step: TransformerEngine, h: int) -> Collective:
    whole = step.sizes.bytes * _gathered(step.sizes) * h
    return Collective("ep", "gather", whole, whole)


def _gathered(sizes: Legend) -> int:
    """n_g: the tokens of all ranks that share out the experts."""
    return sizes.n_shard * sizes.e * sizes.x
