"""A chunk's forward that runs beside another chunk's backward, so that one computes while the
other exchanges tokens with its experts.

A layer is cut behind the permutation of its tokens, one without experts before the last of its
blocks. Layer by layer, from the first forward and from the last backward, there run in turn: the
one's first half forward, the other's second half backward, the one's second half forward, the
other's first half backward. Embedding and head run apart. Source:
megatron/core/models/common/model_chunk_schedule_plan.py (run) and utils.py (should_free_input):
permuted rows are let go once they were sent.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import cache
from itertools import zip_longest
from typing import NamedTuple

from trainfit.estimator.frameworks.megatron.chunks import MegatronLedger
from trainfit.estimator.ledger import Kind
from trainfit.estimator.peak import NOTHING, Beside, PlacedSegment, highest_of
from trainfit.estimator.placement import Content
from trainfit.estimator.segment import Segment, Sums, walk


class Halves(NamedTuple):
    """A layer in two. `waiting` is the gradient between the halves while another layer's forward
    runs.
    """

    first: PlacedSegment
    second: PlacedSegment
    waiting: int


class Parts(NamedTuple):
    """A chunk: what stands before its layers, the layers, what stands behind them."""

    before: list[PlacedSegment]
    layers: list[Halves]
    behind: list[PlacedSegment]


class Pass(NamedTuple):
    """One stretch's forward or backward, with what of the other chunk waits meanwhile."""

    placed: PlacedSegment
    backward: bool
    waiting: int = 0


class Combined:
    """Estimates chunks that run beside each other under one plan."""

    def __init__(self, ledger: MegatronLedger) -> None:
        self._ledger = ledger
        self._parts = cache(self._divide)
        self._found = cache(self._highest)

    def of(self, chunks: Sequence[Content]) -> Callable[[int, int], Beside]:
        """Estimates the forward of one chunk of a rank beside the backward of another."""
        return lambda ahead, behind: self._found(chunks[ahead], chunks[behind])

    def _highest(self, ahead: Content, behind: Content) -> Beside:
        """The highest moment of a forward of `ahead` beside a backward of `behind`, from the
        latter's start.
        """
        data = self._ledger.batch_bytes(ahead)
        backward = self._parts(behind)
        live = sum(segment.saved for segment in _segments(backward))
        best = Beside(NOTHING, of_backward=False)
        for placed, is_backward, waiting in _order(self._parts(ahead), backward):
            if is_backward:
                live -= placed.segment.saved
            moment = highest_of(placed, live, backward=is_backward)
            beside = data + waiting
            moment = moment._replace(borrowed=moment.borrowed + beside, total=moment.total + beside)
            if moment.total > best.highest.total:
                best = Beside(moment, is_backward)
            if not is_backward:
                live += placed.segment.saved
        return best

    def _divide(self, content: Content) -> Parts:
        """The segments of a chunk, with its layers cut."""
        ledger, parts = self._ledger, Parts([], [], [])
        for placed in ledger.segments(content):
            table = ledger.layer_table(placed)
            if table is not None:
                parts.layers.append(_halves(placed, table, ledger.sizes.act))
            else:
                (parts.behind if parts.layers else parts.before).append(placed)
        return parts


def _halves(placed: PlacedSegment, table: list[list[Sums]], gradient: int) -> Halves:
    group, operation = _cut(table)
    first = [*table[:group], table[group][:operation]]
    second = [table[group][operation:], *table[group + 1 :]]
    read = first[-1][-1].backward if first[-1] else 0
    name = placed.segment.name
    return Halves(
        placed._replace(segment=walk(name, first, gradient)),
        placed._replace(segment=walk(name, second, gradient)),
        waiting=gradient + read,
    )


def _cut(table: list[list[Sums]]) -> tuple[int, int]:
    """The group and the operation with which the second half begins."""
    for number, group in enumerate(table):
        for index, sums in enumerate(group):
            if sums.kind is Kind.PERMUTATION:
                return number, index + 1
            if sums.kind is Kind.EXCHANGE:
                return number, index
    return len(table) - 1, 0


def _segments(parts: Parts) -> Iterator[Segment]:
    for placed in (*parts.before, *parts.behind):
        yield placed.segment
    for layer in parts.layers:
        yield layer.first.segment
        yield layer.second.segment


def _order(ahead: Parts, backward: Parts) -> Iterator[Pass]:
    """The passes as they run. While the one chunk's forward runs, the gradient waits that flows
    through the other; of layers that are left alone, none does.
    """
    for placed in ahead.before:
        yield Pass(placed, backward=False)
    for placed in reversed(backward.behind):
        yield Pass(placed, backward=True)
    for forth, back in zip_longest(ahead.layers, reversed(backward.layers)):
        waiting = 0 if back is None else back.waiting
        if forth is not None:
            yield Pass(forth.first, backward=False, waiting=waiting)
        if back is not None:
            yield Pass(back.second, backward=True)
        if forth is not None:
            yield Pass(forth.second, backward=False, waiting=waiting)
        if back is not None:
            yield Pass(back.first, backward=True)
    for placed in ahead.behind:
        yield Pass(placed, backward=False)
    for placed in reversed(backward.before):
        yield Pass(placed, backward=True)
