"""A unit of FSDP with its parameters one by one, as they are gathered and let go of."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate
from typing import NamedTuple

from trainfit.estimator.frameworks.pytorch.engines.registry import engine_of
from trainfit.estimator.frameworks.pytorch.ledger import PlacedGroups, PytorchLedger
from trainfit.estimator.frameworks.pytorch.states import (
    Numbers,
    Shares,
    gathered,
    scales,
    shard,
    stored_share,
)
from trainfit.estimator.frameworks.pytorch.stretch_passes import operations
from trainfit.estimator.frameworks.pytorch.units import Unit
from trainfit.estimator.ledger import BlockOperation
from trainfit.estimator.placement import Content
from trainfit.resolve.pytorch.plan import PytorchPlan

NO_NUMBERS = Numbers(0, 0, 0, 0, 0)


class UnitParameters(NamedTuple):
    """The parameters of a unit, in the order of its modules: each matrix by itself, what there is
    besides in one piece, behind a layer's and before the head.

    Bytes of each, whole as a forward reads them and this rank's share as it is stored; those of
    quantised weights' scales, which are not divided; elements of each that this rank steps.
    """

    unit: Unit
    whole: tuple[int, ...]
    stored: tuple[int, ...]
    undivided: tuple[int, ...]
    stepped: tuple[int, ...]


class UnitRun(NamedTuple):
    """A unit, and the places of the stretches that run while it is gathered. The root's stretches
    are those of no other unit.
    """

    parameters: UnitParameters
    stretches: range
    is_layer: bool


def divides_joined(plan: PytorchPlan) -> bool:
    """Whether ranks divide all parameters of a unit behind one another, so that each has other
    ones: FullyShardedDataParallel does, and lets the optimizer step what a rank has of each
    (_flat_param.py: _get_shard_metadata, use_orig_params, with which Trainer and Composer wrap).
    Modules of adapters are units by themselves.
    """
    return plan.step.data_parallelism.engine == "fsdp1" and plan.step.adapters is None


def units_of(
    ledger: PytorchLedger,
    shares: Shares,
    content: Content,
    stretches: Sequence[PlacedGroups],
    share: int,
) -> tuple[UnitParameters, list[UnitRun]]:
    """The root's parameters, and the runs of all stretches in forward order, for the rank with this
    share of each unit. A layer is a unit; what stands outside of them is the root's, or the
    embedding is one, and norm and head are.
    """
    plan = ledger.plan
    apart = plan.step.data_parallelism.embedding_and_head_apart
    embedding, rest = shares.outside(content)
    behind = [each for each in stretches if each.kind is None and not _is_embedding(each)]
    first, last = [embedding], _each(ledger, behind, rest)[::-1]
    empty = _parameters((), plan, share)
    root = empty if apart else _parameters((*first, *last), plan, share)
    layers = {each.kind: each for each in stretches if each.kind is not None}
    kinds = {
        kind: _parameters(_each(ledger, [layer], shares.layer(kind)), plan, share)
        for kind, layer in layers.items()
    }
    runs = []
    for place, each in enumerate(stretches):
        if each.kind is not None:
            runs.append(UnitRun(kinds[each.kind], range(place, place + 1), True))
        elif _is_embedding(each):
            own = _parameters(first, plan, share) if apart else empty
            runs.append(UnitRun(own, range(place, place + 1), False))
        elif each is behind[0]:
            own = _parameters(last, plan, share) if apart else empty
            runs.append(UnitRun(own, range(place, place + len(behind)), False))
    return root, runs


def _is_embedding(placed: PlacedGroups) -> bool:
    return placed.name == "embedding"


def _parameters(each: Sequence[Numbers], plan: PytorchPlan, share: int) -> UnitParameters:
    numbers = NO_NUMBERS
    for one in each:
        numbers = numbers.plus(one)
    stepped: Iterable[int] = [shard(one, plan).trained for one in each]
    if divides_joined(plan):
        stepped = _pieces([one.trained for one in each], plan.layout.optimizer_shards, share)
    return UnitParameters(
        engine_of(plan).unit(numbers),
        tuple([gathered(one, plan) for one in each]),
        tuple([stored_share(one, plan) for one in each]),
        tuple([nbytes for one in each if (nbytes := scales(one, plan))]),
        tuple(stepped),
    )


def _pieces(counts: Sequence[int], shards: int, share: int) -> Iterator[int]:
    """What lies of parameters behind one another in one of so many equal shares."""
    length = -(-sum(counts) // shards)
    start, stop = share * length, (share + 1) * length
    for end, count in zip(accumulate(counts), counts, strict=True):
        yield max(0, min(end, stop) - max(end - count, start))


def _each(
    ledger: PytorchLedger, stretches: Sequence[PlacedGroups], numbers: Numbers
) -> list[Numbers]:
    """Parameters one by one: the matrices of products, and what is left of the numbers."""
    found, rest = [], numbers
    for placed in stretches:
        for operation in operations(placed.groups):
            for matrix in _matrices(operation, ledger, in_layer=placed.kind is not None):
                left = Numbers(*[a - b for a, b in zip(rest, matrix, strict=True)])
                if min(left) >= 0:
                    found.append(matrix)
                    rest = left
    return [*found, rest] if rest.all else found


def _matrices(
    operation: BlockOperation, ledger: PytorchLedger, *, in_layer: bool
) -> Iterator[Numbers]:
    """A product's weight, and the adapters beside it. The head is none of a layer's matrices."""
    if operation.gemm is None:
        return
    outputs, inputs = operation.gemm
    sizes, count = ledger.sizes, outputs * inputs
    if sizes.trains(operation.name):
        yield Numbers(count, 0, 0, 0, count * in_layer)
    else:
        outside = count * (not in_layer)
        yield Numbers(0, 0, count * in_layer, outside, 0, frozen_ends=outside)
    if sizes.adapters is not None and operation.adapted:
        for side in (inputs, outputs):
            count = sizes.adapters.rank * side
            yield Numbers(count, 0, 0, 0, count)
