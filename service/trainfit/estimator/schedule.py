"""Which chunk-forwards of m micro-batches are in flight on a pipeline rank when one more runs.

1F1B is the interleaved schedule with one chunk per rank. Forward k runs chunk (k mod G v) // G,
backward k the chunks in reverse; a rank first runs its warm-up forwards, then one forward and one
backward in turn. One cycle of G v of these turns shows every state.
Source: megatron/core/pipeline_parallel/schedules.py. Other schedules are estimated by the bounds of
their papers: GPipe (1811.06965), zero bubble (2401.10241), controllable memory (2405.15362),
DualPipe (2412.19437).
"""

from collections.abc import Sequence
from itertools import pairwise
from operator import mul
from typing import NamedTuple

from trainfit.resolve.plan import Pipeline


class Turn(NamedTuple):
    """One forward and, from then on, one backward.

    `live` is what the chunk-forwards in flight keep when the forward of chunk `forward` starts;
    `backward` is the chunk whose oldest forward is undone next. `ordinal` counts the forwards of
    the rank from 0. `first` marks the turn that no backward came before. `sent` and `received` tell
    of which gradients between stages the backward before it left one behind.
    """

    live: int
    forward: int
    backward: int
    ordinal: int
    first: bool
    sent: bool
    received: bool


def warm_up(pipeline: Pipeline, m: int, rank: int) -> int:
    """Forwards that a rank runs before its first backward, in chunks: 1F1B and interleaved.

    Overlapping the exchange of tokens with another micro-batch's computation runs one more ahead,
    but then a forward and a backward at the same time, of which one makes what the other frees.
    """
    behind = pipeline.pp - rank - 1
    if pipeline.vpp == 1:
        return min(behind, m)
    group = pipeline.microbatch_group_size
    return min(2 * behind + (pipeline.vpp - 1) * group, m * pipeline.vpp)


def bounds(pipeline: Pipeline, m: int, rank: int) -> tuple[int, ...]:
    """Most chunk-forwards in flight by chunk, in schedules that are known by their bound.

    GPipe holds every micro-batch. Rank r of ZB-H1 holds p - r of them and the inputs of r more
    delayed weight gradients, ZB-H2 2 (p - r) - 1 and 2 r: each such input counts as a whole here.
    ZB-V holds p in each of its two chunks; DualPipe p + 1 and DualPipe-V 2 p + 1 in both together.
    """
    p = pipeline.pp
    match pipeline.schedule:
        case "gpipe":
            most: tuple[int, ...] = (m,)
        case "zb-h1":
            most = (p,)
        case "zb-h2":
            most = (2 * p - 1,)
        case "zb-v":
            most = (p, p)
        case "dualpipe":
            most = (p - rank, rank + 1)
        case _:
            most = (2 * p - rank, rank + 1)
    return tuple([min(each, m) for each in most])


def in_flight(pipeline: Pipeline, m: int, rank: int) -> int:
    """Chunk-forwards whose activations a rank holds at most."""
    if pipeline.schedule not in ("1f1b", "interleaved"):
        return sum(bounds(pipeline, m, rank))
    return min(warm_up(pipeline, m, rank) + 1, m * pipeline.vpp)


def telling_microbatches(pipeline: Pipeline, m: int) -> int:
    """m, or the fewest micro-batches of which ranks run what they do of more: a whole cycle behind
    the longest warm-up.
    """
    if pipeline.schedule not in ("1f1b", "interleaved"):
        return m
    turns = max(2, cycle(pipeline)) + 1
    return min(m, -(-(warm_up(pipeline, m, 0) + turns) // pipeline.vpp))


class TurnRun(NamedTuple):
    """Turns one after the other that run the same chunks, behind the same backward."""

    first: int
    last: int
    forward: int
    backward: int
    sent: bool
    received: bool


class Alternating(NamedTuple):
    """One forward and one backward in turn, behind some forwards: what a rank runs whatever its
    chunks keep. `ahead` are these forwards by chunk, `runs` the turns of one cycle.
    """

    ahead: list[int]
    start: int
    runs: list[TurnRun]

    def turns(self, saved: Sequence[int]) -> list[Turn]:
        """While the chunks that run stay the same, memory changes by the same amount every turn:
        the first or the last of such turns is their highest.
        """
        live = sum(map(mul, self.ahead, saved))
        found = []
        for first, last, forward, backward, sent, received in self.runs:
            change = saved[forward] - saved[backward]
            turn = last if change > 0 else first
            at = live + (turn - first) * change
            found.append(Turn(at, forward, backward, self.start + turn, turn == 0, sent, received))
            live += (last + 1 - first) * change
        return found


class BoundedSchedule(NamedTuple):
    """A schedule that is known by the `most` chunk-forwards in flight by chunk."""

    most: tuple[int, ...]
    sent: bool
    received: bool

    def turns(self, saved: Sequence[int]) -> list[Turn]:
        """The last forward of each chunk, while all is in flight."""
        everything = sum(map(mul, self.most, saved))
        return [
            Turn(
                everything - saved[chunk], chunk, chunk, count - 1, False, self.sent, self.received
            )
            for chunk, count in enumerate(self.most)
        ]


Order = Alternating | BoundedSchedule
"""Its `turns` are those after the warm-up at which memory can peak, where a forward of chunk c
keeps `saved[c]`.
"""


def order_of(pipeline: Pipeline, m: int, rank: int) -> Order:
    """What a rank runs."""
    if pipeline.schedule not in ("1f1b", "interleaved"):
        return BoundedSchedule(bounds(pipeline, m, rank), rank > 0, rank < pipeline.pp - 1)
    v = pipeline.vpp
    total = m * v
    group = pipeline.microbatch_group_size if v > 1 else 1
    start = min(warm_up(pipeline, m, rank), total - 1)
    runs = []
    for first, stop in pairwise(_runs(start, v, group, total - start)):
        forward, backward = (start + first) // group % v, v - 1 - first // group % v
        sent, received = left_behind(pipeline, rank, first)
        runs.append(TurnRun(first, stop - 1, forward, backward, sent, received))
    return Alternating(_counts(start, v, group), start, runs)


def left_behind(pipeline: Pipeline, rank: int, backwards: int) -> tuple[bool, bool]:
    """Whether the schedule still holds the gradient that was sent, and that which was received,
    once a rank has run so many backwards: those of the last one, unless its chunk begins or ends
    the model.
    """
    if not backwards:
        return False, False
    if 0 < rank < pipeline.pp - 1:
        return True, True
    chunk = pipeline.vpp - 1 - chunk_of(backwards - 1, pipeline)
    begins = rank == 0 and chunk == 0
    ends = rank == pipeline.pp - 1 and chunk == pipeline.vpp - 1
    return not begins, not ends


def cycle(pipeline: Pipeline) -> int:
    """Turns after which the chunks that run repeat."""
    return pipeline.microbatch_group_size * pipeline.vpp if pipeline.vpp > 1 else 1


def chunk_of(index: int, pipeline: Pipeline) -> int:
    """The chunk of a rank's forward; a backward runs the chunks in reverse."""
    return index % cycle(pipeline) // pipeline.microbatch_group_size if pipeline.vpp > 1 else 0


def microbatch_of(index: int, pipeline: Pipeline) -> int:
    """The micro-batch of a rank's forward or backward."""
    if pipeline.schedule != "interleaved":
        return index
    group = pipeline.microbatch_group_size
    return index // (group * pipeline.vpp) * group + index % group


def _runs(start: int, v: int, group: int, turns_left: int) -> list[int]:
    """Where the runs of a cycle start, and its end. The first turn of each stands alone: another
    chunk's backward came before it, or none; the second shows the steady state.
    """
    stop = min(group * v if v > 1 else 2, turns_left)
    firsts = {0, *range(0, stop, group), *range(-start % group, stop, group)}
    return sorted({stop, *firsts, *[min(first + 1, stop) for first in firsts]})


def _counts(forwards: int, v: int, group: int) -> list[int]:
    """Chunk-forwards by chunk after the first `forwards` of them."""
    cycles, rest = divmod(forwards, group * v)
    return [cycles * group + max(0, min(group, rest - chunk * group)) for chunk in range(v)]
