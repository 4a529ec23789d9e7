"""Rows that the experts of a rank happen to get where they take whatever is routed to them.

Every layer of every micro-batch has other rows, and blocks of other sizes with them. A segment that
was made for one hardly serves the next, however little they differ: it is what differs that
counts, not by how much.
"""

from collections.abc import Callable
from dataclasses import replace
from random import Random

from trainfit.estimator.frameworks.megatron.requests.passes import MegatronStretch, ModelStretches
from trainfit.estimator.memo import Memo
from trainfit.estimator.overhead import IMBALANCE_PERMILLE
from trainfit.resolve.megatron.plan import MegatronPlan

LATER_STEPS = 2
"""Steps behind the first: what is reserved grows on, by little."""
LOADS = [1000 + part * IMBALANCE_PERMILLE // 2 for part in range(-2, 3)]
"""Thousandths of the rows that a layer's experts get on average."""


def is_uneven(plan: MegatronPlan) -> bool:
    """Whether ranks get other rows from layer to layer: one that has all experts never does."""
    return plan.model.has_experts and plan.layout.ep > 1 and not plan.routing.pad_to_capacity


def layers(stretches: ModelStretches, memo: Memo, draw: int) -> Callable[[int], MegatronStretch]:
    """A layer of a kind each time with one of the loads, as one of many draws has it."""
    loaded, choose = memo(_loaded, stretches), Random(draw).choice
    return lambda kind: choose(loaded[kind]) if kind in loaded else stretches.layer(kind)


def _loaded(stretches: ModelStretches) -> dict[int, list[MegatronStretch]]:
    """Kinds of layers with experts, with every load."""
    way = stretches.run.way
    mean = way.routing.imbalance_factor
    routings = [replace(way.routing, imbalance_factor=mean * load / 1000) for load in LOADS]
    ways = [way._replace(routing=routing) for routing in routings]
    kinds = enumerate(stretches.run.model.layer_kinds)
    return {
        number: [stretches.layer_of(number, each) for each in ways]
        for number, kind in kinds
        if kind.has_experts
    }
