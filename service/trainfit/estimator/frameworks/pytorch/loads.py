"""What a pipeline rank holds as its actions run, in numbers of micro-batches.

The highest memory is looked for among the loads that a schedule comes by, whatever its chunks
weigh: these rest on the order of the actions alone.
"""

from collections.abc import Iterator
from operator import le
from typing import NamedTuple

from trainfit.estimator.frameworks.pytorch.schedules import (
    ADDING,
    BREADTH_FIRST,
    FOR_INPUTS,
    FORWARD,
    REDUCE,
    STEADILY_SPLIT,
    Action,
    Direction,
    order,
    shown_microbatches,
)
from trainfit.resolve.plan import Layout

WHOLE_CHUNKS = 3
"""Chunks of a rank whose weights are whole at once: those that run next (_add_unshard_reshard)."""

Counts = tuple[int, ...]
"""Numbers of what each chunk holds, one chunk after the other, in the order of Held."""


class Held(NamedTuple):
    """What a chunk holds, in numbers or in bytes."""

    running: int = 0
    """Micro-batches whose backward has not begun."""
    deferred: int = 0
    """Micro-batches that lack their backward for weights."""
    left: int = 0
    """Backwards for inputs so far: each leaves the gradient of its input until the next step."""
    reduced: int = 0
    """This rank's share of gradients that were reduced."""
    added: int = 0
    """Whole gradients, added up."""
    first: int = 0
    """Those of the first backward for weights, which the next one for inputs turns into `added`."""
    fresh: int = 0
    """Those of the latest backward for weights, which the next one for inputs adds."""
    active: int = 0
    """Weights, or of those that are let go of after forward what stands outside of layers."""
    idle: int = 0
    """All layers of such weights, left whole while another chunk runs."""


RUNNING, DEFERRED, LEFT, REDUCED, ADDED, FIRST, FRESH, ACTIVE, IDLE = range(len(Held._fields))
WIDTH = len(Held._fields)


class Load(NamedTuple):
    """What a rank holds when an action starts."""

    action: Action
    counts: Counts


class Loads(NamedTuple):
    """What a rank holds in a step: at the actions at which it can hold most, chunk-forwards whose
    activations it keeps at most, and, by chunk, gradients of inputs that are left at the end.
    """

    highest: list[Load]
    in_flight: int
    left: Counts


def loads(layout: Layout, microbatches: int, rank: int) -> Loads:
    """The loads of a rank, whatever a chunk weighs."""
    highest = _highest(layout, microbatches, rank)
    left = zip(*[counts[LEFT::WIDTH] for _, counts in highest], strict=True)
    return Loads(highest, max(map(_in_flight, highest)), tuple(map(max, left)))


def _in_flight(load: Load) -> int:
    """Chunk-forwards whose activations are kept, that of the action among them."""
    running, deferred = load.counts[RUNNING::WIDTH], load.counts[DEFERRED::WIDTH]
    return sum(running) + sum(deferred) + (load.action.direction == FORWARD)


def _highest(layout: Layout, microbatches: int, rank: int) -> list[Load]:
    found: dict[tuple[Direction, int], dict[Counts, Action]] = {}
    for action, counts in _walk(layout, microbatches, rank):
        found.setdefault(action[:2], {}).setdefault(counts, action)
    return [
        Load(alike[counts], counts) for alike in found.values() for counts in _corners(list(alike))
    ]


def _corners(points: list[Counts]) -> list[Counts]:
    """Those of which one has the highest sum, whatever each number is multiplied with: no other one
    is as large in everything, and none is between two others.
    """
    largest: list[Counts] = []
    for point in sorted(points, key=sum, reverse=True):
        if not any(all(map(le, point, other)) for other in largest):
            largest.append(point)
    corners: list[Counts] = []
    for point in sorted(largest):
        if len(corners) > 1 and _is_between(corners[-2], corners[-1], point):
            corners.pop()
        corners.append(point)
    return corners


def _is_between(first: Counts, middle: Counts, last: Counts) -> bool:
    """Whether the middle is on the line from the first to the last, which come in order."""
    steps = [(b - a, c - a) for a, b, c in zip(first, middle, last, strict=True)]
    part, whole = next((part, whole) for part, whole in steps if whole)
    return all(b * whole == part * c for b, c in steps)


def _walk(layout: Layout, microbatches: int, rank: int) -> Iterator[tuple[Action, Counts]]:
    """The actions of a step in order, each with the counts before it. Of long steps the middle is
    left out: what adds up over all of the step is as large then as at its end.
    """
    shown = shown_microbatches(layout, microbatches)
    omitted = microbatches - shown
    actions = list(order(layout, shown, rank))
    middle = len(actions) // 2 if layout.schedule in STEADILY_SPLIT else -1
    holding = _Holding(layout.vpp, omitted if layout.schedule in BREADTH_FIRST else 0)
    for number, (action, whole) in enumerate(zip(actions, _whole(actions), strict=True)):
        if number == middle:
            holding.leave(omitted)
        action = holding.start(action, whole)
        yield action, tuple(holding.counts)
        holding.end(action)
        if holding.undone[action.chunk] == shown:
            reduction = Action(REDUCE, action.chunk, action.microbatch)
            holding.start(reduction, whole)
            yield reduction, tuple(holding.counts)
            holding.end(reduction)


def _whole(actions: list[Action]) -> list[tuple[int, ...]]:
    """The chunks whose weights are whole at each action."""
    found: list[tuple[int, ...]] = []
    upcoming: list[int] = []
    for action in reversed(actions):
        if not upcoming or upcoming[0] != action.chunk:
            upcoming = [action.chunk, *(each for each in upcoming if each != action.chunk)]
        found.append(tuple(upcoming[:WHOLE_CHUNKS]))
    return found[::-1]


class _Holding:
    """What a rank of v chunks holds as actions run. `waiting` more micro-batches than are shown run
    in a chunk that runs any.
    """

    def __init__(self, v: int, waiting: int) -> None:
        self.counts = [0] * (WIDTH * v)
        self.undone = [0] * v
        """Micro-batches that have run backward, by chunk."""
        self._waiting = waiting
        self._gathered = [1] * v
        """Whether all layers were left whole: by a backward, or before anything ran."""

    def leave(self, omitted: int) -> None:
        """So many more backwards for inputs have run in every chunk that ran any."""
        for at in range(LEFT, len(self.counts), WIDTH):
            self.counts[at] += omitted if self.counts[at] else 0

    def start(self, action: Action, whole: tuple[int, ...]) -> Action:
        """The action, told apart where it adds up gradients that it finds."""
        for chunk, gathered in enumerate(self._gathered):
            active = chunk in whole
            self.counts[WIDTH * chunk + ACTIVE] = int(active)
            self.counts[WIDTH * chunk + IDLE] = gathered * (active and chunk != action.chunk)
        fresh = WIDTH * action.chunk + FRESH
        if action.direction == FOR_INPUTS and self.counts[fresh]:
            self.counts[fresh] = 0
            return action._replace(direction=ADDING)
        return action

    def end(self, action: Action) -> None:
        counts, base = self.counts, WIDTH * action.chunk
        self._gathered[action.chunk] = int(action.direction != FORWARD)
        match action.direction:
            case "forward":
                counts[base + RUNNING] += 1 if counts[base + RUNNING] else 1 + self._waiting
            case "backward":
                self._finish(base)
                self._add(base)
                self.undone[action.chunk] += 1
            case "backward_for_inputs" | "adding":
                self._finish(base)
                counts[base + DEFERRED] += 1
                counts[base + LEFT] += 1
                if action.direction == ADDING:
                    self._add(base)
            case "backward_for_weights":
                counts[base + DEFERRED] -= 1
                counts[base + FIRST] = 1 - counts[base + ADDED]
                counts[base + FRESH] = 1
                self.undone[action.chunk] += 1
            case _:
                counts[base + REDUCED], counts[base + ADDED] = 1, 0
                counts[base + FIRST] = counts[base + FRESH] = 0
                self.undone[action.chunk] = 0

    def _finish(self, base: int) -> None:
        """One micro-batch less is running."""
        running = self.counts[base + RUNNING] - 1
        self.counts[base + RUNNING] = 0 if running == self._waiting else running

    def _add(self, base: int) -> None:
        """Gradients are added up."""
        self.counts[base + ADDED] = 1
        self.counts[base + FIRST] = self.counts[base + FRESH] = 0
