"""What a pipeline idles, by its schedule.

f and b are a stage's seconds of one micro-batch forward and backward, w those of the gradients of
weights alone, which some schedules put into the bubble. Sources: Megatron-LM (2104.04473) for 1f1b
and interleaved, GPipe (1811.06965), breadth-first (2211.05953), zero bubble (2401.10241),
controllable memory (2405.15362), DualPipe (2412.19437).
"""

from collections.abc import Sequence
from typing import NamedTuple

from trainfit.resolve.plan import Pipeline


class Passes(NamedTuple):
    """Seconds of one micro-batch through all chunks of a rank: forward, backward, and of the latter
    the gradients of weights.
    """

    forward: float
    backward: float
    weights: float


def bubble(pipeline: Pipeline, ranks: Sequence[Passes]) -> float:
    """Seconds for which the slowest rank waits for the others to fill and to drain."""
    if pipeline.pp == 1:
        return 0.0
    slowest = max(ranks, key=lambda each: each.forward + each.backward)
    others = Passes(*[sum(all_) - own for *all_, own in zip(*ranks, slowest, strict=True)])
    return max(0.0, _idle(pipeline, others))


def _idle(pipeline: Pipeline, others: Passes) -> float:
    """Of the passes of all other ranks added up, what lies between the first forward and the last
    backward of the slowest and that it cannot fill.
    """
    forward, backward, weights = others
    match pipeline.schedule:
        case "1f1b" | "gpipe":
            return forward + backward
        case "interleaved" | "looped-bfs":
            return (forward + backward) / pipeline.vpp
        case "zb-h1":
            return forward + backward - 2 * weights
        case "interleaved-zb":
            return (forward + backward - 2 * weights) / pipeline.vpp
        case "zb-h2" | "zb-v":
            return 0.0
        case "dualpipe" | "dualpipe-v":
            half = (pipeline.pp / 2 - 1) / (pipeline.pp - 1)
            return half * (forward + 2 * backward - 3 * weights)
