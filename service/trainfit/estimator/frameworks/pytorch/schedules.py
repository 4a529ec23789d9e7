"""The order in which a pipeline rank runs forwards and backwards, as torch.distributed.pipelining
does it (schedules.py), and what it holds meanwhile in numbers of micro-batches.

Zero-bubble schedules run backward in two: for the inputs of a chunk at once, for its weights when
the rank would wait. A rank has chunks c = 0 .. v - 1; m micro-batches run through p ranks, rank r
of which is looked at. Schedules: GPipe (1811.06965), breadth first (2211.05953), interleaved
(2104.04473), zero bubble (2401.10241), ZB-V (2405.15362), DualPipe-V (2412.19437).
"""

from collections import Counter
from collections.abc import Iterator
from itertools import pairwise
from typing import Literal, NamedTuple

from trainfit.resolve.plan import Pipeline

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


class RepeatedActions(NamedTuple):
    """Actions that run in turn, again and again: `times` in all. From one time to the next the
    micro-batches of each move on by its step.
    """

    actions: tuple[Action, ...]
    steps: tuple[int, ...]
    times: int

    def turn(self, number: int) -> tuple[Action, ...]:
        """The actions of one time, counted from 0."""
        return tuple(
            [
                Action(direction, chunk, microbatch + number * step)
                for (direction, chunk, microbatch), step in zip(
                    self.actions, self.steps, strict=True
                )
            ]
        )

    def cut(self, at: int) -> tuple[list["RepeatedActions"], list["RepeatedActions"]]:
        """What is run before an action, counted from 0, and from it on."""
        number, within = divmod(at, len(self.actions))
        turn, steps = self.turn(number), self.steps
        before = [
            RepeatedActions(self.actions, steps, number),
            RepeatedActions(turn[:within], steps[:within], 1),
        ]
        later = self.times - number - 1
        after = [
            RepeatedActions(turn[within:], steps[within:], 1),
            RepeatedActions(self.turn(number + 1), steps, later),
        ]
        return [run for run in before if run], [run for run in after if run]

    def __bool__(self) -> bool:
        return bool(self.actions and self.times)


Part = tuple[Direction, int]
"""A direction and the chunk that it is run in."""
Waiting = tuple[tuple[int, ...], int]
"""Chunks in turn, so many times."""
DOWN, UP = 0, 1
"""The chunks of a rank where the schedule is V-shaped."""

STEADILY_SPLIT = ("interleaved-zb", "zb-v")
"""Schedules that run every backward in two; DualPipe-V does when it warms up and cools down."""

STEADY = 4
"""Multiples of p micro-batches that show every state of a schedule that is not interleaved."""
ROUNDS = 4
"""Rounds of an interleaved schedule that show every state: its warm-up, two cycles, its end."""


def shown_microbatches(pipeline: Pipeline, microbatches: int) -> int:
    """Micro-batches of a step in which a rank comes by every state that it does with m."""
    match pipeline.schedule:
        case "gpipe" | "looped-bfs":
            return min(microbatches, ROUNDS)
        case "interleaved" | "interleaved-zb":
            group = microbatches_per_round(pipeline.pp, microbatches)
            return min(microbatches, ROUNDS * group)
        case _:
            return min(microbatches, STEADY * pipeline.pp)


def actions_in_steady_state(pipeline: Pipeline) -> int:
    """Actions for every further micro-batch."""
    return (3 if pipeline.schedule in STEADILY_SPLIT else 2) * pipeline.vpp


def microbatches_per_round(pp: int, microbatches: int) -> int:
    """Micro-batches that a chunk runs in a row when interleaved; rounds are as many as have no
    less than p. Where m is no multiple of the rounds, PyTorch refuses.
    """
    return microbatches // max(1, microbatches // pp)


def order(pipeline: Pipeline, microbatches: int, rank: int) -> Iterator[Action]:
    """The actions of a rank but for reductions."""
    for run in runs(pipeline, microbatches, rank):
        for number in range(run.times):
            yield from run.turn(number)


def runs(pipeline: Pipeline, microbatches: int, rank: int) -> Iterator[RepeatedActions]:
    """Runs are what is run over and over: as many as the rank has chunks, many times."""
    p, m = pipeline.pp, microbatches
    match pipeline.schedule:
        case "gpipe" | "looped-bfs":
            return _breadth_first(pipeline.vpp, m)
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
            ahead = min((pipeline.vpp - 1) * group + hops, m * pipeline.vpp)
            lag = rank if zero_bubble else None
            return _alternating(pipeline.vpp, m, group, ahead=ahead, lag=lag)


def _breadth_first(v: int, m: int) -> Iterator[RepeatedActions]:
    for chunk in range(v):
        yield RepeatedActions((Action(FORWARD, chunk, 0),), (1,), m)
    for chunk in reversed(range(v)):
        yield RepeatedActions((Action(BACKWARD, chunk, 0),), (1,), m)


def _alternating(
    v: int, m: int, group: int, *, ahead: int, lag: int | None = None
) -> Iterator[RepeatedActions]:
    """`ahead` forwards, then a forward and a backward in turn, then what backwards are left. With a
    `lag` backward is in two, and the one for weights that many turns behind. Turns are counted from
    the first backward; where a direction begins, ends or comes to its next chunk, so does a run.
    """
    total = m * v
    begins: list[tuple[Direction, int]] = [(FORWARD, -ahead), (BACKWARD, 0)]
    if lag is not None:
        begins = [(FORWARD, -ahead), (FOR_INPUTS, 0), (FOR_WEIGHTS, lag)]

    def action(direction: Direction, index: int) -> Action:
        """A backward runs the chunks in reverse."""
        cycle, within = divmod(index, group * v)
        chunk = within // group if direction == FORWARD else v - 1 - within // group
        return Action(direction, chunk, cycle * group + within % group)

    cuts = {first + done for _, first in begins for done in range(0, total + 1, group)}
    for turn, stop in pairwise(sorted(cuts)):
        actions = tuple(
            [action(each, turn - first) for each, first in begins if 0 <= turn - first < total]
        )
        if actions:
            yield RepeatedActions(actions, (1,) * len(actions), stop - turn)


def _zero_bubble_v(p: int, m: int, rank: int) -> Iterator[RepeatedActions]:
    """ZB-V is made for 2 p - 1 micro-batches or more; of those that there are not, nothing runs."""
    for run in _whole_zero_bubble_v(p, max(2 * p - 1, m), rank):
        yield from _below(m, run)


def _below(m: int, run: RepeatedActions) -> Iterator[RepeatedActions]:
    """What a run does with the first m micro-batches."""
    cuts = {0, run.times}
    for action, step in zip(run.actions, run.steps, strict=True):
        cuts.add(min(max(0, -((action.microbatch - m) // step)), run.times))
    for start, stop in pairwise(sorted(cuts)):
        turn = zip(run.turn(start), run.steps, strict=True)
        kept = [(action, step) for action, step in turn if action.microbatch < m]
        if kept:
            actions, steps = zip(*kept, strict=True)
            yield RepeatedActions(actions, steps, stop - start)


def _whole_zero_bubble_v(p: int, m: int, rank: int) -> Iterator[RepeatedActions]:
    behind = p - rank
    again = _Microbatches().run
    yield from again(2 * behind - 1, (FORWARD, DOWN))
    yield from again(rank, (FORWARD, UP), (FORWARD, DOWN))
    yield from again(behind, (FORWARD, UP), *_halves(UP))
    one_up: list[Part] = [*_halves(DOWN), (FORWARD, UP), *_halves(UP)]
    yield from again(m - p - behind + 1, (FORWARD, DOWN), *one_up)
    yield from again(behind - 1, *one_up)
    yield from again(rank, (FOR_INPUTS, DOWN), (FOR_INPUTS, UP))
    yield from again(behind, *_halves(DOWN))
    yield from again(rank, (FOR_WEIGHTS, UP))
    yield from again(rank, (FOR_WEIGHTS, DOWN))


def _dual_pipe_v(p: int, m: int, rank: int) -> Iterator[RepeatedActions]:
    """Its overlapped forward and backward run one after the other unless a model says how they are
    run together. Backwards for weights wait in a queue over both chunks.
    """
    behind = p - rank - 1
    again = _Microbatches().run
    yield from again(2 * behind, (FORWARD, DOWN))
    yield from again(rank + 1, (FORWARD, DOWN), (FORWARD, UP))
    yield from again(behind, *_halves(UP), (FORWARD, UP))
    overlapped: list[Part] = [(BACKWARD, UP), (FORWARD, UP), (BACKWARD, DOWN)]
    yield from again(m - 2 * p + rank + 1, (FORWARD, DOWN), *overlapped)
    yield from again(behind, *overlapped)
    pairs, odd = divmod(rank + 1, 2)
    yield from again(pairs, (BACKWARD, UP), (BACKWARD, DOWN))
    yield from again(odd, (BACKWARD, UP), (FOR_INPUTS, DOWN))
    yield from again(pairs, (FOR_INPUTS, UP), (FOR_INPUTS, DOWN))
    queue = [((DOWN,), odd), ((UP, DOWN), pairs), ((DOWN,), behind)]
    for chunks, times, is_beside in _divide(queue, behind):
        beside: list[Part] = [(FOR_INPUTS, DOWN)] if is_beside else []
        yield from again(times, *[each for c in chunks for each in ((FOR_WEIGHTS, c), *beside)])


def _divide(queue: list[Waiting], first: int) -> Iterator[tuple[tuple[int, ...], int, bool]]:
    """A queue of chunks, or pairs of them, so many times each; whether they are of the `first`."""
    for chunks, times in queue:
        whole, half = divmod(max(0, min(first, len(chunks) * times)), len(chunks))
        yield chunks, whole, True
        if half:
            yield chunks[:half], 1, True
            yield chunks[half:], 1, False
        yield chunks, times - whole - half, False
        first -= len(chunks) * times


def _halves(chunk: int) -> tuple[Part, Part]:
    """A backward in two, one half behind the other."""
    return (FOR_INPUTS, chunk), (FOR_WEIGHTS, chunk)


class _Microbatches:
    """The micro-batches of each chunk, which come in order, by what is run."""

    def __init__(self) -> None:
        self._next: Counter[Part] = Counter()

    def run(self, times: int, *parts: Part) -> Iterator[RepeatedActions]:
        """So many times these, if any."""
        if times < 1:
            return
        before = self._next.copy()
        actions = tuple([self._take(part) for part in parts])
        steps = self._next - before
        for part, step in steps.items():
            self._next[part] += (times - 1) * step
        yield RepeatedActions(actions, tuple([steps[_first_half(part)] for part in parts]), times)

    def _take(self, part: Part) -> Action:
        """The next one. A whole backward counts as both of its halves."""
        direction, chunk = part
        index = self._next[_first_half(part)]
        for each in _halves(chunk) if direction == BACKWARD else (part,):
            self._next[each] += 1
        return Action(direction, chunk, index)


def _first_half(part: Part) -> Part:
    return (FOR_INPUTS, part[1]) if part[0] == BACKWARD else part
