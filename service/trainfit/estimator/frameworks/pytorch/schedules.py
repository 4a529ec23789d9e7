"""The order in which a pipeline rank runs forwards and backwards, as torch.distributed.pipelining
does it (schedules.py), and what it holds meanwhile in numbers of micro-batches.

Zero-bubble schedules run backward in two: for the inputs of a chunk at once, for its weights when
the rank would wait. A rank has chunks c = 0 .. v - 1; m micro-batches run through p ranks, rank r
of which is looked at. Schedules: GPipe (1811.06965), breadth first (2211.05953), interleaved
(2104.04473), zero bubble (2401.10241), ZB-V (2405.15362), DualPipe-V (2412.19437).
"""

from collections.abc import Iterator
from operator import le
from typing import Literal, NamedTuple

from trainfit.resolve.plan import Layout

Direction = Literal[
    "forward", "backward", "backward_for_inputs", "adding", "backward_for_weights", "reduce"
]
FORWARD: Direction = "forward"
BACKWARD: Direction = "backward"
FOR_INPUTS: Direction = "backward_for_inputs"
ADDING: Direction = "adding"
"""A backward for inputs that adds up, layer by layer, what the latest one for weights left."""
FOR_WEIGHTS: Direction = "backward_for_weights"
REDUCE: Direction = "reduce"

BREADTH_FIRST = ("gpipe", "looped-bfs")
"""Schedules that run every forward before the first backward."""

STEADY = 4
"""Multiples of p micro-batches that show every state of a schedule that is not interleaved."""
WHOLE_CHUNKS = 3
"""Chunks of a rank whose weights are whole at once: those that run next (_add_unshard_reshard)."""
ROUNDS = 4
"""Rounds of an interleaved schedule that show every state: its warm-up, two cycles, its end."""


class Action(NamedTuple):
    """One chunk's forward, backward or part of a backward for one micro-batch; the reduction of a
    chunk's gradients behind its last backward has none.
    """

    direction: Direction
    chunk: int
    microbatch: int


class Load(NamedTuple):
    """What a rank holds when an action starts."""

    action: Action
    counts: tuple[int, ...]
    """By what is held, in the order of HELD, and of each by chunk."""

    def in_flight(self, v: int) -> int:
        """Chunk-forwards whose activations are kept, that of the action among them."""
        return sum(self.counts[: 2 * v]) + (self.action.direction == FORWARD)


HELD = ("running", "deferred", "left", "reduced", "added", "first", "fresh", "active", "idle")
"""What a chunk holds: micro-batches whose backward has not begun; those that lack their backward
for weights; backwards for inputs so far, each of which leaves the gradient of its input until the
next step. Then whether it does: this rank's share of reduced gradients; whole gradients, added up;
those of the first backward for weights, which the next backward for inputs makes so; those of the
latest one, which it adds. Whether its weights are whole, and whether all of them stay so while
another chunk runs."""


def loads(layout: Layout, microbatches: int, rank: int) -> list[Load]:
    """What a rank holds at the actions at which it can hold most, whatever a chunk weighs."""
    found: dict[tuple[Direction, int], list[Load]] = {}
    for load in _walk(layout, microbatches, rank):
        _extend(found.setdefault(load.action[:2], []), load)
    return [load for course in found.values() for load in _highest(course)]


def _extend(course: list[Load], load: Load) -> None:
    """Add what comes next where a chunk does the same again. Between loads that change by the same
    amount every time, memory is between those of the first and of the last.
    """
    if len(course) > 1:
        last, before = course[-1].counts, course[-2].counts
        if all(c - b == b - a for a, b, c in zip(before, last, load.counts, strict=True)):
            course.pop()
    course.append(load)


def _highest(course: list[Load]) -> Iterator[Load]:
    """Without those that hold no more of anything than another one."""
    counts = {load.counts: load for load in course}
    for each, load in counts.items():
        if not any(each != other and all(map(le, each, other)) for other in counts):
            yield load


def shown_microbatches(layout: Layout, microbatches: int) -> int:
    """Micro-batches of a step in which a rank comes by every state that it does with m."""
    match layout.schedule:
        case "gpipe" | "looped-bfs":
            return min(microbatches, ROUNDS)
        case "interleaved" | "interleaved-zb":
            group = microbatches_per_round(layout.pp, microbatches)
            return min(microbatches, ROUNDS * group)
        case _:
            return min(microbatches, STEADY * layout.pp)


STEADILY_SPLIT = ("interleaved-zb", "zb-v")
"""Schedules that run every backward in two; DualPipe-V does when it warms up and cools down."""


def actions_in_steady_state(layout: Layout) -> int:
    """Actions for every further micro-batch."""
    return (3 if layout.schedule in STEADILY_SPLIT else 2) * layout.vpp


def _walk(layout: Layout, microbatches: int, rank: int) -> Iterator[Load]:
    """The loads of a step in order. Of long ones the middle is left out; what adds up over all of
    the step is told as at its end.
    """
    shown = shown_microbatches(layout, microbatches)
    omitted = microbatches - shown
    waiting = omitted if layout.schedule in BREADTH_FIRST else 0
    leaving = omitted if layout.schedule in STEADILY_SPLIT else 0
    actions = list(order(layout, shown, rank))
    holding = _Holding(layout.vpp)
    for number, (action, whole) in enumerate(zip(actions, _whole(actions), strict=True)):
        late = leaving if 2 * number >= len(actions) else 0
        if action.direction == FOR_INPUTS and holding.fresh[action.chunk]:
            action = action._replace(direction=ADDING)
        yield Load(action, holding.counts(action, whole, waiting=waiting, late=late))
        holding.run(action)
        if holding.undone[action.chunk] == shown:
            reduction = Action(REDUCE, action.chunk, action.microbatch)
            yield Load(reduction, holding.counts(reduction, whole, waiting=waiting, late=late))
            holding.run(reduction)


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
    """What a rank of v chunks holds as actions run."""

    def __init__(self, v: int) -> None:
        self._chunks = range(v)
        self._running, self._deferred, self._left = [0] * v, [0] * v, [0] * v
        self._reduced, self._added, self._first, self.fresh = ([0] * v for _ in range(4))
        self._gathered = [1] * v
        """Whether all layers were left whole: by a backward, or before anything ran."""
        self.undone = [0] * v
        """Micro-batches that have run backward, by chunk."""

    def counts(
        self, action: Action, whole: tuple[int, ...], *, waiting: int, late: int
    ) -> tuple[int, ...]:
        """As a load has them. `waiting` more micro-batches run in every chunk that runs any, `late`
        more left the gradient of their input where any did.
        """
        return (
            *(count + waiting if count else 0 for count in self._running),
            *self._deferred,
            *(count + late if count else 0 for count in self._left),
            *self._reduced,
            *self._added,
            *self._first,
            *(
                self.fresh[chunk] * (action.direction != ADDING or chunk != action.chunk)
                for chunk in self._chunks
            ),
            *(int(chunk in whole) for chunk in self._chunks),
            *(
                self._gathered[chunk] * (chunk in whole and chunk != action.chunk)
                for chunk in self._chunks
            ),
        )

    def run(self, action: Action) -> None:
        chunk = action.chunk
        self._gathered[chunk] = int(action.direction != FORWARD)
        match action.direction:
            case "forward":
                self._running[chunk] += 1
            case "backward":
                self._running[chunk] -= 1
                self._add_up(chunk)
                self._added[chunk] = 1
                self.undone[chunk] += 1
            case "backward_for_inputs" | "adding":
                self._running[chunk] -= 1
                self._deferred[chunk] += 1
                self._left[chunk] += 1
                self._add_up(chunk)
            case "backward_for_weights":
                self._deferred[chunk] -= 1
                self._first[chunk] = 1 - self._added[chunk]
                self.fresh[chunk] = 1
                self.undone[chunk] += 1
            case _:
                self._add_up(chunk)
                self._reduced[chunk], self._added[chunk] = 1, 0
                self.undone[chunk] = 0

    def _add_up(self, chunk: int) -> None:
        """Gradients that a backward for weights left are added to the others."""
        self._added[chunk] |= self.fresh[chunk]
        self._first[chunk] = self.fresh[chunk] = 0


def microbatches_per_round(pp: int, microbatches: int) -> int:
    """Micro-batches that a chunk runs in a row when interleaved; rounds are as many as have no
    less than p. Where m is no multiple of the rounds, PyTorch refuses.
    """
    return microbatches // max(1, microbatches // pp)


def order(layout: Layout, microbatches: int, rank: int) -> Iterator[Action]:
    """The actions of a rank but for reductions."""
    p, m = layout.pp, microbatches
    match layout.schedule:
        case "gpipe" | "looped-bfs":
            return _breadth_first(layout.vpp, m)
        case "1f1b":
            return _alternating(1, m, m, ahead=min(p - rank - 1, m))
        case "zb-v":
            return _zero_bubble_v(p, m, rank)
        case "dualpipe-v":
            return _dual_pipe_v(p, m, rank)
        case schedule:
            zero_bubble = schedule == "interleaved-zb"
            group = microbatches_per_round(p, m)
            hops = (1 if zero_bubble else 2) * (p - 1 - rank)
            ahead = min((layout.vpp - 1) * group + hops, m * layout.vpp)
            lag = rank if zero_bubble else None
            return _alternating(layout.vpp, m, group, ahead=ahead, lag=lag)


def _breadth_first(v: int, m: int) -> Iterator[Action]:
    for chunk in range(v):
        yield from (Action(FORWARD, chunk, i) for i in range(m))
    for chunk in reversed(range(v)):
        yield from (Action(BACKWARD, chunk, i) for i in range(m))


def _alternating(
    v: int, m: int, group: int, *, ahead: int, lag: int | None = None
) -> Iterator[Action]:
    """`ahead` forwards, then a forward and a backward in turn, then what backwards are left. With a
    `lag` backward is in two, and the one for weights that many turns behind.
    """

    def place(index: int) -> tuple[int, int]:
        """Chunk and micro-batch of a forward; a backward runs the chunks in reverse."""
        cycle, within = divmod(index, group * v)
        return within // group, cycle * group + within % group

    def backward(direction: Direction, index: int) -> Action:
        chunk, microbatch = place(index)
        return Action(direction, v - 1 - chunk, microbatch)

    total = m * v
    yield from (Action(FORWARD, *place(index)) for index in range(ahead))
    for turn in range(total):
        if ahead + turn < total:
            yield Action(FORWARD, *place(ahead + turn))
        yield backward(BACKWARD if lag is None else FOR_INPUTS, turn)
        if lag is not None and turn >= lag:
            yield backward(FOR_WEIGHTS, turn - lag)
    if lag is not None:
        yield from (backward(FOR_WEIGHTS, turn) for turn in range(max(0, total - lag), total))


def _zero_bubble_v(p: int, m: int, rank: int) -> Iterator[Action]:
    """ZB-V is made for 2 p - 1 micro-batches or more; of those that there are not, nothing runs."""
    return (each for each in _whole_zero_bubble_v(p, max(2 * p - 1, m), rank) if each[2] < m)


def _whole_zero_bubble_v(p: int, m: int, rank: int) -> Iterator[Action]:
    down, up = _Runs(0), _Runs(1)
    for _ in range(2 * (p - rank) - 1):
        yield down(FORWARD)
    for _ in range(rank):
        yield up(FORWARD)
        yield down(FORWARD)
    for _ in range(p - rank):
        yield up(FORWARD)
        yield up(FOR_INPUTS)
        yield up(FOR_WEIGHTS)
    while up.count(FORWARD) < max(m, down.count(FORWARD)):
        if down.count(FORWARD) < m:
            yield down(FORWARD)
        yield down(FOR_INPUTS)
        yield down(FOR_WEIGHTS)
        yield up(FORWARD)
        yield up(FOR_INPUTS)
        yield up(FOR_WEIGHTS)
    for _ in range(rank):
        yield down(FOR_INPUTS)
        yield up(FOR_INPUTS)
    for _ in range(p - rank):
        yield down(FOR_INPUTS)
        yield down(FOR_WEIGHTS)
    for chunk in (up, down):
        while chunk.count(FOR_WEIGHTS) < m:
            yield chunk(FOR_WEIGHTS)


class _Runs:
    """Micro-batches of a chunk, in order, by what is run."""

    def __init__(self, chunk: int) -> None:
        self._chunk = chunk
        self._counts: dict[Direction, int] = {}

    def count(self, direction: Direction) -> int:
        return self._counts.get(direction, 0)

    def __call__(self, direction: Direction) -> Action:
        """The next one. A whole backward counts as both of its parts."""
        parts = (FOR_INPUTS, FOR_WEIGHTS) if direction == BACKWARD else (direction,)
        index = self.count(parts[0])
        for part in parts:
            self._counts[part] = self.count(part) + 1
        return Action(direction, self._chunk, index)


def _dual_pipe_v(p: int, m: int, rank: int) -> Iterator[Action]:
    """Its overlapped forward and backward run one after the other unless a model says how they are
    run together. Backwards for weights wait in a queue over both chunks.
    """
    down, up = _Runs(0), _Runs(1)
    waiting: list[_Runs] = []

    def undo(chunk: _Runs, *, split: bool) -> Iterator[Action]:
        if split:
            waiting.append(chunk)
        yield chunk(FOR_INPUTS if split else BACKWARD)

    def catch_up() -> Iterator[Action]:
        if waiting:
            yield waiting.pop(0)(FOR_WEIGHTS)

    for _ in range(2 * (p - rank - 1)):
        yield down(FORWARD)
    for _ in range(rank + 1):
        yield down(FORWARD)
        yield up(FORWARD)
    for _ in range(p - rank - 1):
        yield from undo(up, split=True)
        yield from catch_up()
        yield up(FORWARD)
    for _ in range(m - 2 * p + rank + 1):
        yield down(FORWARD)
        yield up(BACKWARD)
        yield up(FORWARD)
        yield down(BACKWARD)
    for _ in range(p - rank - 1):
        yield up(BACKWARD)
        yield up(FORWARD)
        yield down(BACKWARD)
    whole = rank + 1
    for index in range(2 * (rank + 1)):
        yield from undo(down if index % 2 else up, split=index >= whole)
    for _ in range(p - rank - 1):
        yield from catch_up()
        yield from undo(down, split=True)
    for _ in range(rank + 1):
        yield from catch_up()
