"""The order in which a pipeline rank runs forwards and backwards, as torch.distributed.pipelining
does it (schedules.py), and what it holds meanwhile in numbers of micro-batches.

Zero-bubble schedules run backward in two: for the inputs of a chunk at once, for its weights when
the rank would wait. A rank has chunks c = 0 .. v - 1; m micro-batches run through p ranks, rank r
of which is looked at. Schedules: GPipe (1811.06965), breadth first (2211.05953), interleaved
(2104.04473), zero bubble (2401.10241), ZB-V (2405.15362), DualPipe-V (2412.19437).
"""

from collections.abc import Iterator
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


class Action(NamedTuple):
    """One chunk's forward, backward or part of a backward for one micro-batch; the reduction of a
    chunk's gradients behind its last backward has none.
    """

    direction: Direction
    chunk: int
    microbatch: int


STEADILY_SPLIT = ("interleaved-zb", "zb-v")
"""Schedules that run every backward in two; DualPipe-V does when it warms up and cools down."""

STEADY = 4
"""Multiples of p micro-batches that show every state of a schedule that is not interleaved."""
ROUNDS = 4
"""Rounds of an interleaved schedule that show every state: its warm-up, two cycles, its end."""


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


def actions_in_steady_state(layout: Layout) -> int:
    """Actions for every further micro-batch."""
    return (3 if layout.schedule in STEADILY_SPLIT else 2) * layout.vpp


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
