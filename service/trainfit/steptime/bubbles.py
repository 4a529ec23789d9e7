"""What a pipeline idles, by its schedule.

f and b are a stage's seconds of one micro-batch forward and backward, w those of the gradients of
weights alone, which some schedules put into the bubble. They follow from the orders in which ranks
run (estimator/schedule.py, and frameworks/pytorch/schedules.py of the estimator), as tests run them
through; where no order is known, from their papers: zero bubble (2401.10241) and DualPipe
(2412.19437).
"""

from collections.abc import Sequence
from typing import NamedTuple

from trainfit.estimator.schedule import warm_up
from trainfit.resolve.plan import Pipeline


class PassSeconds(NamedTuple):
    """Seconds of one micro-batch through all chunks of a rank: forward, backward, and of the latter
    the gradients of weights.
    """

    forward: float
    backward: float
    weights: float


def bubble(pipeline: Pipeline, ranks: Sequence[PassSeconds], microbatches: int) -> float:
    """Seconds of a step for which the rank that is busiest waits for the others."""
    if pipeline.pp == 1:
        return 0.0
    if pipeline.schedule in ("1f1b", "interleaved"):
        return _one_by_one(pipeline, ranks, microbatches)
    slowest = max(ranks, key=_both)
    others = PassSeconds(*[sum(all_) - own for *all_, own in zip(*ranks, slowest, strict=True)])
    return max(0.0, _idle(pipeline, others))


def _one_by_one(pipeline: Pipeline, ranks: Sequence[PassSeconds], m: int) -> float:
    """Beyond the passes of the slowest rank, the longest way through the order of any: its first
    forward waits for the ranks before it, which come again behind its last backward. Between its
    first forward and its first backward the ranks behind it pass a micro-batch on and back, while
    it runs others ahead; and so at the end.
    """
    v, group = pipeline.vpp, pipeline.microbatch_group_size
    passes = [_both(each) for each in ranks]
    slowest, total, before, longest = max(passes), sum(passes), 0.0, 0.0
    for rank, (each, own) in enumerate(zip(ranks, passes, strict=True)):
        behind = total - before - own
        ahead = min(warm_up(pipeline, m, rank) - (v - 1) * group, m * v - 1)
        waits = max(0.0, behind - ahead * each.forward) + max(0.0, behind - ahead * each.backward)
        longest = max(longest, m * (own - slowest) + (before + waits) / v)
        before += own
    return longest


def _both(passes: PassSeconds) -> float:
    return passes.forward + passes.backward


def _idle(pipeline: Pipeline, others: PassSeconds) -> float:
    """The part of the passes of all other ranks, added up, that lies between the first forward and
    the last backward of the slowest and that it cannot fill.
    """
    forward, backward, weights = others
    match pipeline.schedule:
        case "zb-h1":
            return forward + backward - 2 * weights
        case "interleaved-zb" | "zb-v" | "dualpipe-v":
            return (forward + backward - 2 * weights) / pipeline.vpp
        case "zb-h2":
            return 0.0
        case "dualpipe":
            half = (pipeline.pp / 2 - 1) / (pipeline.pp - 1)
            return half * (forward + 2 * backward - 3 * weights)
        case _:
            return (forward + backward) / pipeline.vpp
