"""From programs to the order in which their tensors come and go.

A moment is given by the tensors that somebody reads or makes then. A tensor is there from the first
moment that names it until the last one: as in PyTorch, it goes when nobody refers to it any more.
What a moment needs no longer goes before what it makes comes.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from trainfit.estimator.ledger import BlockOperation, Group, Lifetime
from trainfit.estimator.tensors import Tensor

Moment = tuple[Tensor, ...]


class TensorEvent(NamedTuple):
    """A tensor comes, or goes."""

    tensor: Tensor
    comes: bool


def forward(groups: Iterable[Group]) -> list[Moment]:
    """The moments of operations that run forward."""
    moments: list[Moment] = []
    for group in groups:
        held: Moment = ()
        for operation in group:
            moments.extend([(*held, *moment) for moment in _forward(operation)])
            held += tuple(_of(operation, Lifetime.HELD))
            moments[-1] = (*held, *moments[-1])
    return moments


def operations(groups: Iterable[Group]) -> list[BlockOperation]:
    """The operations of each moment of `forward`."""
    every = [each for group in groups for each in group]
    return [each for each in every for _ in range(len(each.forward.timeline) + 1)]


def backward(groups: Sequence[Group]) -> list[Moment]:
    """The moments of the same operations that run backward, from the last to the first. What an
    operation has saved is there until its backward is over, and the gradients that it leaves stay.
    """
    moments: list[Moment] = []
    for group in reversed(groups):
        for operation in reversed(group):
            moments.extend(_backward(operation))
    return moments


def saved(groups: Iterable[Group]) -> frozenset[Tensor]:
    """What operations save for their backward."""
    return frozenset(each for group in groups for each in _with(group, Lifetime.SAVED))


def left(groups: Iterable[Group]) -> list[Tensor]:
    """The gradients that backward leaves, in the order of the parameters."""
    return [each for group in groups for each in _with(group, Lifetime.GRADIENT)]


def turns(
    moments: Sequence[Moment],
    given: Iterable[Tensor] = (),
    kept: Iterable[Tensor] = (),
) -> tuple[TensorEvent, ...]:
    """What comes and goes from moment to moment. What is `given` is there before the first, what is
    `kept` stays behind the last.
    """
    last = {each: index for index, moment in enumerate(moments) for each in moment}
    here, stays = dict.fromkeys(given), frozenset(kept)
    made: list[TensorEvent] = []
    for index, moment in enumerate(moments):
        for tensor in [each for each in here if last.get(each, -1) < index and each not in stays]:
            del here[tensor]
            made.append(TensorEvent(tensor, comes=False))
        for tensor in moment:
            if tensor not in here:
                here[tensor] = None
                made.append(TensorEvent(tensor, comes=True))
    made.extend([TensorEvent(each, comes=False) for each in here if each not in stays])
    return tuple(made)


def _forward(operation: BlockOperation) -> list[Moment]:
    """What it saves and some moments do not name is made late, what it makes last."""
    reads, timeline = _storages(operation.reads), operation.forward.timeline
    early = tuple([each for each in reads if each not in operation.forward.saved])
    moments = [(*early, *_storages(moment)) for moment in timeline]
    made = operation.makes if operation.output is None else (operation.output,)
    gone = {each for moment in timeline for each in moment}.difference(timeline[-1])
    still = [each for each in reads if each not in gone]
    moments.append((*still, *_storages(timeline[-1]), *_storages(made)))
    return moments


def _backward(operation: BlockOperation) -> list[Moment]:
    """What it saves and some moments do not name goes early."""
    early = operation.backward.saved
    own = _of(operation, Lifetime.SAVED)
    until_the_end = [each for each in own if each not in early]
    leaves = _of(operation, Lifetime.GRADIENT)
    gone = {each for each in early if each not in own}
    moments = [
        (*until_the_end, *leaves, *[each for each in _storages(moment) if each not in gone])
        for moment in operation.backward.timeline
    ]
    return [tuple(own), *moments] if early else moments


def _with(group: Group, lifetime: Lifetime) -> list[Tensor]:
    return [each for operation in group for each in _of(operation, lifetime)]


def _of(operation: BlockOperation, lifetime: Lifetime) -> list[Tensor]:
    return [row.tensor for row in operation.tensors if row.lifetime is lifetime]


def _storages(tensors: Iterable[Tensor]) -> tuple[Tensor, ...]:
    return tuple([each.of or each for each in tensors if each.bytes])
