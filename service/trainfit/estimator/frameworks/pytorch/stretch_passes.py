"""How the tensors of a stretch come and go, forward and backward, as its programs tell it.

Each kind of stretch is worked out once. Source of what runs again: torch/utils/checkpoint.py.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

from trainfit.estimator.blocks.head import pytorch as head
from trainfit.estimator.frameworks.pytorch.checkpointing import kept_tensors
from trainfit.estimator.frameworks.pytorch.engines.fsdp import keeps_inputs
from trainfit.estimator.frameworks.pytorch.ledger import PlacedGroups, PytorchLedger
from trainfit.estimator.frameworks.pytorch.passing import gradients_pass
from trainfit.estimator.ledger import BlockOperation, Group, OperationKind
from trainfit.estimator.tensors import Role, Tensor
from trainfit.estimator.trace.moments import (
    Moment,
    TensorEvent,
    backward,
    forward,
    left,
    saved,
    turns,
)
from trainfit.estimator.trace.moments import operations as ordered
from trainfit.estimator.trace.recorder import HeldTensor, Passage, Recorder

NOTHING = Passage(())


class StretchPasses(NamedTuple):
    """How the tensors of a stretch come and go: forward, backward, which begins with that of its
    `loss` if it has one, and before which it may run `again`. `read` and `made` are the residual
    stream before and behind it, `of_read` and `of_made` its gradient there.
    """

    forward: Passage
    loss: Passage
    again: Passage
    backward: Passage
    read: Tensor | None
    made: Tensor | None
    of_read: Tensor | None
    of_made: Tensor | None
    cached: tuple[Tensor, ...] = ()
    """What autocast keeps of a layer that runs again, until it ends."""
    behind_autocast: Passage = NOTHING
    """What of its forward is computed of what the model answers, when autocast has ended."""
    behind_reference: Passage = NOTHING
    """What of its forward waits for a reference model to have run."""
    of_reference: Tensor | None = None
    """The logits that it then reads."""


class PassesByStretch:
    """The passes of the stretches of one model."""

    def __init__(self, ledger: PytorchLedger) -> None:
        self._ledger, self._compiled = ledger, ledger.plan.step.compiled
        self._keeps_inputs, self._pass = keeps_inputs(ledger.plan), gradients_pass(ledger.plan)
        self._reentrant = ledger.plan.step.checkpointing.reentrant
        self._passes: dict[tuple[int, bool, bool], StretchPasses] = {}

    def of(self, placed: PlacedGroups, *, passing: bool | None = None) -> StretchPasses:
        """The passes of a stretch. Gradients that are `passing` are gone with their operation, but
        that of a tied head, which waits for the embedding's; as the ledger has it, where None.
        """
        passing = self._pass if passing is None else passing
        key = id(placed.groups), placed.again, passing
        if key not in self._passes:
            waits = placed.groups is self._ledger.head() and self._ledger.sizes.tied
            leaves = left(placed.groups) if waits or not passing else []
            run = self._outside if placed.kind is None else self._layer
            self._passes[key] = run(placed, leaves)
        return self._passes[key]

    def _outside(self, placed: PlacedGroups, leaves: list[Tensor]) -> StretchPasses:
        """The embedding makes the residual stream, and the final norm reads it; its gradient goes
        the other way.
        """
        groups, sizes = placed.groups, self._ledger.sizes
        run, back = forward(groups), backward(groups)
        kept = saved(groups)
        made = of_read = of_made = None
        read = _block_input(groups)
        if placed.name == "embedding":
            made = _stream("embeddings", sizes.embedded)
            of_made = _stream("gradient of the embeddings", sizes.embedded)
            run = [*run, (made,)]
            back = [(*moment, of_made) for moment in back] or [(of_made,)]
        if read is not None:
            of_read = _stream("gradient of the residual stream", sizes.act)
            back = [*back, (*back[-1][-1:], of_read)]
        given = [each for each in (read,) if each is not None]
        stays = [each for each in (made,) if each is not None]
        before = [each for each in (of_made,) if each is not None]
        behind = [each for each in (of_read,) if each is not None]
        loss = len(backward([_loss(groups)]))
        of_loss, rest = _divided(back, [loss], [*kept, *before], [*leaves, *behind])
        waits, of_reference = _until_reference(groups)
        places = [self._within_autocast(placed, len(run)), waits or len(run)]
        handed = [] if of_reference is None else [of_reference]
        first, outside, then = _divided(run, places, given, [*kept, *stays], handed)
        return StretchPasses(
            Passage(first),
            Passage(of_loss),
            NOTHING,
            Passage(rest),
            *(read, made, of_read, of_made),
            behind_autocast=Passage(outside) if outside else NOTHING,
            behind_reference=Passage(then) if then else NOTHING,
            of_reference=of_reference,
        )

    def _within_autocast(self, placed: PlacedGroups, every: int) -> int:
        """How many moments of a stretch's forward, of `every`, are over when autocast ends."""
        if placed.name != "head":
            return every
        kinds = [each.kind for each in operations(placed.groups)]
        within = head.within_autocast(kinds, self._ledger.plan.step)
        return len(forward([tuple(operations(placed.groups))[:within]]))

    def _layer(self, placed: PlacedGroups, leaves: list[Tensor]) -> StretchPasses:
        """The residual stream and its gradient pass through. A layer that runs again keeps what it
        reads, and makes all else before its backward, behind which it may leave what it read and
        the gradient that it was given.
        """
        sublayers, act = self._ledger.sublayers(placed), self._ledger.sizes.act
        reads = [_block_input(groups) or _stream("residual stream", act) for groups in sublayers]
        made = _stream("residual stream", act)
        held = () if self._compiled else reads[:1]
        run: list[Moment] = []
        for groups, read, following in zip(sublayers, reads, [*reads[1:], made], strict=True):
            moments = forward(groups) if self._compiled else _holding_inputs(groups)
            moments = [(*held, read, *moment) for moment in moments]
            run += [*moments, (*moments[-1][-1:], read, following)]
        back: list[Moment] = []
        of_read = of_made = _stream("gradient of the residual stream", act)
        for groups in reversed(sublayers):
            moments = [(of_read, *moment) for moment in backward(groups)]
            following = _stream("gradient of the residual stream", act)
            back += [*moments, (of_read, *moments[-1][-1:], following)]
            of_read = following
        kept = saved(placed.groups)
        if placed.again:
            chosen = self._chosen(placed.groups)
            cached = tuple([each for each in kept if each.role is Role.CACHED_BY_AUTOCAST])
            again = [(reads[0], of_made, *moment) for moment in run]
            holds = (made, of_made) if self._reentrant else ()
            whole = turns(again, [reads[0], of_made, *chosen], [reads[0], of_made, *holds, *kept])
            back = [(reads[0], *holds, *moment) for moment in back]
            stay = (reads[0], of_made) if self._keeps_inputs else ()
            behind = turns(back, [*kept, *holds, of_made, reads[0]], [*leaves, of_read, *stay])
            return StretchPasses(
                Passage(turns(run, [reads[0]], [reads[0], made, *chosen, *cached])),
                NOTHING,
                Passage(whole),
                Passage(behind),
                *(reads[0], made, of_read, of_made),
                cached,
            )
        return StretchPasses(
            Passage(turns(run, [reads[0]], [*kept, made])),
            NOTHING,
            NOTHING,
            Passage(turns(back, [*kept, of_made], [*leaves, of_read])),
            *(reads[0], made, of_read, of_made),
        )

    def _chosen(self, groups: tuple[Group, ...]) -> list[Tensor]:
        """What a layer that runs again keeps of its operations beside its input."""
        plan = self._ledger.plan
        if plan.step.checkpointing.kind != "operations":
            return []
        return kept_tensors(groups, plan.step)


def release_cached(
    recorder: Recorder, passes: Iterable[tuple[StretchPasses, dict[Tensor, HeldTensor]]]
) -> None:
    """What autocast keeps goes when it ends."""
    for each, here in passes:
        recorder.release(*[here.pop(tensor) for tensor in each.cached])


def operations(groups: Sequence[Group]) -> Iterator[BlockOperation]:
    for group in groups:
        yield from group


def _divided(
    moments: Sequence[Moment],
    places: Sequence[int],
    given: Sequence[Tensor],
    kept: Sequence[Tensor],
    handed: Sequence[Tensor] = (),
) -> list[tuple[TensorEvent, ...]]:
    """What comes and goes before the first of the places among the moments, between two of them and
    from the last one on, where what somebody else has made meanwhile is `handed` over.
    """
    parts: list[tuple[TensorEvent, ...]] = []
    for start, end in pairwise([0, *places, len(moments)]):
        later, here = ({*_named(moments[at:]), *kept} for at in (end, start))
        begun = dict.fromkeys([*given, *_named(moments[:start])])
        there = [each for each in begun if not start or each in here]
        last = handed if end == len(moments) else ()
        parts.append(turns(moments[start:end], [*there, *last], later) if start < end else ())
    return parts


def _named(moments: Sequence[Moment]) -> dict[Tensor, None]:
    """The tensors of moments, in the order in which they come."""
    return dict.fromkeys([each for moment in moments for each in moment])


def _until_reference(groups: Sequence[Group]) -> tuple[int, Tensor | None]:
    """How many moments of a head are over before a reference's logits are there, and these."""
    for index, each in reversed([*enumerate(ordered(groups))]):
        if each.kind is OperationKind.REFERENCE:
            return index, each.output
    return 0, None


def _loss(groups: Sequence[Group]) -> Group:
    """The operations of a loss that stands behind the head."""
    made = [each.kind for each in operations(groups)]
    own = OperationKind.LOSS in made and OperationKind.PRODUCT in made
    return tuple([each for each in operations(groups) if own and each.kind is OperationKind.LOSS])


def _stream(name: str, nbytes: int) -> Tensor:
    """A tensor [n', h] of the residual stream, or its gradient."""
    return Tensor(name, (nbytes,), 1, (), Role.BLOCK_INPUT)


def _holding_inputs(groups: tuple[Group, ...]) -> list[Moment]:
    """The moments of a sublayer forward: who calls a block, unless it is compiled, holds what that
    reads until it returns.
    """
    inputs, *blocks = groups
    made = [each.output for each in inputs]
    held = tuple([each.of or each for each in made[-2:] if each is not None])
    return [*forward([inputs]), *[(*held, *moment) for moment in forward(blocks)]]


def _block_input(groups: Sequence[Group]) -> Tensor | None:
    """What a sublayer reads of the residual stream."""
    for operation in operations(groups):
        for each in operation.reads:
            if each.role is Role.BLOCK_INPUT and each.of is None:
                return each
    return None
