"""What a pipeline rank holds as its actions run, in numbers of micro-batches.

The highest memory is looked for among the loads that a schedule comes by, whatever its chunks
weigh: these rest on the order of the actions alone. While the same actions run over and over, each
time adds the same to what is held: the first and the last times have the most of it.
"""

from array import array
from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate, pairwise
from operator import le
from typing import NamedTuple

from trainfit.estimator.frameworks.pytorch.schedules import (
    ADDING,
    BACKWARD,
    BREADTH_FIRST,
    FOR_INPUTS,
    FOR_WEIGHTS,
    FORWARD,
    REDUCE,
    STEADILY_SPLIT,
    Action,
    Direction,
    Part,
    RepeatedActions,
    runs,
    shown_microbatches,
)
from trainfit.resolve.plan import Pipeline

WHOLE_CHUNKS = 3
"""Chunks of a rank whose weights are whole at once: those that run next (_add_unshard_reshard)."""

Counts = tuple[int, ...]
"""Numbers of what each chunk holds, one chunk after the other, in the order of Held."""
Change = tuple[tuple[int, int], ...]
"""Places in counts, and by how much each grows from one action to the next."""
Whole = tuple[int, ...]
"""The chunks whose weights are whole while an action runs."""


class ChunkLoad(NamedTuple):
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
    """Gradients of the first backward for weights: the next one for inputs makes them `added`."""
    fresh: int = 0
    """Gradients of the latest backward for weights, which the next one for inputs adds."""
    active: int = 0
    """Weights, or of those that are let go of after forward what stands outside of layers."""
    idle: int = 0
    """All layers of such weights, left whole while another chunk runs."""


RUNNING, DEFERRED, LEFT, REDUCED, ADDED, FIRST, FRESH, ACTIVE, IDLE = range(len(ChunkLoad._fields))
WIDTH = len(ChunkLoad._fields)

COMES_AND_GOES: Mapping[Direction, Change] = {
    FORWARD: ((RUNNING, 1),),
    BACKWARD: ((RUNNING, -1),),
    FOR_INPUTS: ((RUNNING, -1), (DEFERRED, 1), (LEFT, 1)),
    ADDING: ((RUNNING, -1), (DEFERRED, 1), (LEFT, 1)),
    FOR_WEIGHTS: ((DEFERRED, -1),),
}
"""What an action changes in a chunk every time, by its place in Held."""
FIRST_TIMES = 2
"""Times of a run, of which the second begins as all that follow do: what chunks run last is as it
is from then on, and gradients are there to add to. Where it leaves the first that are fresh, these
are added up in the second.
"""
LAST_TIMES = 2
"""The last time that a run runs again, and that before which other chunks become whole."""


class Load(NamedTuple):
    """What a rank holds when an action starts."""

    action: Action
    counts: Counts


class Loads(NamedTuple):
    """What a rank holds in a step when an action starts, at every action of the first and the last
    times of its runs: the place among `parts` of what it runs, its micro-batch, and the place among
    `changes` of what came and went since the action before.

    `in_flight` is the most chunk-forwards whose activations it keeps, `left` by chunk the gradients
    of inputs that are left at the end.
    """

    parts: list[Part]
    changes: list[Change]
    part: "array[int]"
    microbatch: "array[int]"
    change: "array[int]"
    in_flight: int
    left: Counts

    def highest(self, sizes: Sequence[int], moments: Mapping[Part, int]) -> Load:
        """Where the rank holds most: `sizes` are the bytes of what is counted, `moments` what each
        part reaches beyond them. Of equal bytes the first part, and of its loads the least in the
        order of their counts that none exceeds.
        """
        grown = [sum([by * sizes[place] for place, by in change]) for change in self.changes]
        held = list(accumulate(map(grown.__getitem__, self.change)))
        most: dict[int, int] = {}
        for part, total in zip(self.part, held, strict=True):
            if part not in most or total > most[part]:
                most[part] = total
        reached = {
            number: most[number] + moments[part]
            for number, part in enumerate(self.parts)
            if part in moments
        }
        highest = max(reached, key=reached.__getitem__)
        wanted = highest, most[highest]
        found = enumerate(zip(self.part, held, strict=True))
        return self._least([number for number, each in found if each == wanted])

    def _least(self, numbers: list[int]) -> Load:
        """The load of actions that run the same, by their numbers: the least of the counts that
        none exceeds.
        """
        counts = [0] * (WIDTH * len(self.left))
        points: dict[Counts, int] = {}
        for before, number in pairwise([-1, *numbers]):
            for change in self.change[before + 1 : number + 1]:
                for place, by in self.changes[change]:
                    counts[place] += by
            points.setdefault(tuple(counts), number)
        least = next(point for point in sorted(points) if not _is_exceeded(point, points))
        number = points[least]
        return Load(Action(*self.parts[self.part[number]], self.microbatch[number]), least)


def _is_exceeded(point: Counts, others: Iterable[Counts]) -> bool:
    """Whether another is as large in everything."""
    return any(other != point and all(map(le, point, other)) for other in others)


def fewest_alike(pipeline: Pipeline, microbatches: int) -> int:
    """The fewest micro-batches of a step in which ranks hold what they do in one of so many: fewer
    only where nothing adds up over the step.
    """
    adds_up = pipeline.schedule in (*BREADTH_FIRST, *STEADILY_SPLIT)
    return microbatches if adds_up else shown_microbatches(pipeline, microbatches)


def loads(pipeline: Pipeline, microbatches: int, rank: int) -> Loads:
    """The loads of a rank, whatever a chunk weighs. Of long steps the middle is left out: what adds
    up over all of the step is as large then as at its end.
    """
    shown = shown_microbatches(pipeline, microbatches)
    omitted = microbatches - shown
    order = list(runs(pipeline, shown, rank))
    middle = len(order)
    if omitted and pipeline.schedule in STEADILY_SPLIT:
        order, middle = _cut_in_half(order)
    holding = _Holding(pipeline.vpp, shown, omitted if pipeline.schedule in BREADTH_FIRST else 0)
    for number, (run, whole) in enumerate(zip(order, _whole(order), strict=True)):
        if number == middle:
            holding.leave(omitted)
        holding.run(run, whole)
    return holding.loads()


def _cut_in_half(order: list[RepeatedActions]) -> tuple[list[RepeatedActions], int]:
    """The runs with a cut in the middle of their actions, and how many there are before it."""
    at = sum([len(run.actions) * run.times for run in order]) // 2
    for number, run in enumerate(order):
        if at < len(run.actions) * run.times:
            before, after = run.cut(at)
            return [*order[:number], *before, *after, *order[number + 1 :]], number + len(before)
        at -= len(run.actions) * run.times
    return order, len(order)


class WholeInTurn(NamedTuple):
    """The chunks whose weights are whole at each action of a run: where it runs again behind that,
    and the last time.
    """

    again: list[Whole]
    last: list[Whole]


def _whole(order: list[RepeatedActions]) -> list[WholeInTurn]:
    found: list[WholeInTurn] = []
    upcoming: Whole = ()
    for run in reversed(order):
        chunks = [action.chunk for action in run.actions]
        last = [_next_chunks(chunks[at:], upcoming) for at in range(len(chunks))]
        upcoming = last[0]
        again = [_next_chunks(chunks[at:], upcoming) for at in range(len(chunks))]
        found.append(WholeInTurn(again, last))
    return found[::-1]


def _next_chunks(chunks: list[int], upcoming: Whole) -> Whole:
    return tuple(dict.fromkeys([*chunks, *upcoming]))[:WHOLE_CHUNKS]


class _Holding:
    """What a rank of v chunks holds as runs of actions go by, m micro-batches in each chunk.
    `waiting` more of them run in a chunk that runs any.
    """

    def __init__(self, v: int, m: int, waiting: int) -> None:
        self._counts = [0] * (WIDTH * v)
        self._change: list[tuple[int, int]] = []
        """What came and went since the last action started."""
        self._undone = [0] * v
        """Micro-batches that have run backward, by chunk."""
        self._gathered = [1] * v
        """Whether all layers were left whole: by a backward, or before anything ran."""
        self._whole: Whole = ()
        self._m, self._waiting = m, waiting
        self._in_flight = self._most_in_flight = 0
        self._parts: dict[Part, int] = {}
        self._changes: dict[Change, int] = {}
        self._found = array("H"), array("Q"), array("I")

    def loads(self) -> Loads:
        left = tuple(self._counts[LEFT::WIDTH])
        return Loads(
            list(self._parts), list(self._changes), *self._found, self._most_in_flight, left
        )

    def leave(self, omitted: int) -> None:
        """So many more backwards for inputs have run in every chunk that ran any."""
        for place in range(LEFT, len(self._counts), WIDTH):
            if self._counts[place]:
                self._grow(place, omitted)

    def run(self, run: RepeatedActions, whole: WholeInTurn) -> None:
        """A run, but for times that are like the one before and the one behind."""
        first = min(FIRST_TIMES + self._is_first_fresh(run), run.times)
        last = max(first, run.times - (1 if whole.again == whole.last else LAST_TIMES))
        for number in range(first):
            self._turn(run, number, whole)
        if last > first:
            self._pass_over(run, last - first)
        for number in range(last, run.times):
            self._turn(run, number, whole)

    def _is_first_fresh(self, run: RepeatedActions) -> bool:
        """Whether nothing is added up yet in a chunk that runs a backward for weights."""
        return any(
            direction == FOR_WEIGHTS and not self._counts[WIDTH * chunk + ADDED]
            for direction, chunk, _ in run.actions
        )

    def _turn(self, run: RepeatedActions, number: int, whole: WholeInTurn) -> None:
        wholes = whole.again if number + 1 < run.times else whole.last
        for action, chunks in zip(run.turn(number), wholes, strict=True):
            self._act(action, chunks)
            if self._undone[action.chunk] == self._m:
                self._act(action._replace(direction=REDUCE), chunks)

    def _pass_over(self, run: RepeatedActions, times: int) -> None:
        for direction, chunk, _ in run.actions:
            for place, by in COMES_AND_GOES[direction]:
                self._grow(WIDTH * chunk + place, by * times)
            self._undone[chunk] += times * (direction in (BACKWARD, FOR_WEIGHTS))

    def _act(self, action: Action, whole: Whole) -> None:
        direction, chunk, number = action
        if direction == FOR_INPUTS and self._counts[WIDTH * chunk + FRESH]:
            direction = ADDING
        self._start(direction, chunk, whole)
        if self._in_flight + (direction == FORWARD) > self._most_in_flight:
            self._most_in_flight = self._in_flight + (direction == FORWARD)
        part, microbatch, change = self._found
        part.append(self._parts.setdefault((direction, chunk), len(self._parts)))
        microbatch.append(number)
        change.append(self._changes.setdefault(tuple(self._change), len(self._changes)))
        self._change.clear()
        self._end(direction, chunk)

    def _start(self, direction: Direction, running: int, whole: Whole) -> None:
        """Weights are whole by now; gradients that are added up are so as they are met."""
        for chunk in self._whole:
            if chunk not in whole:
                self._set(WIDTH * chunk + ACTIVE, 0)
                self._set(WIDTH * chunk + IDLE, 0)
        for chunk in whole:
            self._set(WIDTH * chunk + ACTIVE, 1)
            self._set(WIDTH * chunk + IDLE, self._gathered[chunk] if chunk != running else 0)
        self._whole = whole
        if direction == ADDING:
            self._set(WIDTH * running + FRESH, 0)

    def _end(self, direction: Direction, chunk: int) -> None:
        base = WIDTH * chunk
        self._gathered[chunk] = int(direction != FORWARD)
        if direction == REDUCE:
            self._set(base + REDUCED, 1)
            self._leave_gradients(base, added=0, first=0, fresh=0)
            self._undone[chunk] = 0
            return
        for place, by in COMES_AND_GOES[direction]:
            self._grow(base + place, by)
        if self._waiting:
            self._wait(base, direction)
        if direction in (BACKWARD, ADDING):
            self._leave_gradients(base, added=1, first=0, fresh=0)
        elif direction == FOR_WEIGHTS:
            added = self._counts[base + ADDED]
            self._leave_gradients(base, added=added, first=1 - added, fresh=1)
        self._undone[chunk] += direction in (BACKWARD, FOR_WEIGHTS)

    def _wait(self, base: int, direction: Direction) -> None:
        """What waits runs with the first micro-batch of a chunk, and until the last is undone."""
        running = self._counts[base + RUNNING]
        if direction == FORWARD and running == 1:
            self._grow(base + RUNNING, self._waiting)
        elif direction == BACKWARD and running == self._waiting:
            self._grow(base + RUNNING, -self._waiting)

    def _leave_gradients(self, base: int, *, added: int, first: int, fresh: int) -> None:
        self._set(base + ADDED, added)
        self._set(base + FIRST, first)
        self._set(base + FRESH, fresh)

    def _set(self, place: int, count: int) -> None:
        if self._counts[place] != count:
            self._grow(place, count - self._counts[place])

    def _grow(self, place: int, by: int) -> None:
        self._counts[place] += by
        self._change.append((place, by))
        if place % WIDTH in (RUNNING, DEFERRED):
            self._in_flight += by
