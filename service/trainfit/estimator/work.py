"""How much work the estimate of a plan is, told from its size before anything is estimated.

Whoever has to answer others meanwhile decides by it where a job is estimated.
"""

from typing import NamedTuple

from trainfit.resolve.plan import MegatronPlan, Plan
from trainfit.specs.parallelism import SPLIT_BACKWARD

CHEAP = 10_000
"""Work up to which a job is estimated in less than 10 ms, whatever it is."""


class Costs(NamedTuple):
    """Work of what a plan has several of. Chunks are counted where there is a pipeline."""

    kind: int
    layer: int
    rank: int
    chunk: int


PLAN = 1_500
"""What every estimate has: counts of parameters, assumptions, an answer."""
MEGATRON = Costs(kind=500, layer=20, rank=80, chunk=35)
PYTORCH = Costs(kind=800, layer=35, rank=120, chunk=350)
SPLIT = Costs(kind=1_600, layer=60, rank=120, chunk=700)
"""Of PyTorch's schedules that run backward in two."""


def work(plan: Plan) -> int:
    """Units of work to estimate a plan and to write the answer, none of it remembered: no more than
    microseconds of one core of a common server. tests/bench prints both.

    Kinds of layers are estimated once, layers are passed one by one, chunks run through the
    schedule of their rank. The number of micro-batches, and sizes that are only multiplied, cost
    nothing.
    """
    layout, costs = plan.layout, _costs(plan)
    return (
        PLAN
        + costs.kind * len(plan.model.layer_kinds)
        + costs.layer * (plan.model.num_layers + plan.mtp_layers)
        + costs.rank * layout.pp
        + costs.chunk * layout.pp * layout.vpp * (layout.pp > 1)
    )


def is_cheap(plan: Plan) -> bool:
    """Whether a plan is estimated in less than 10 ms."""
    return work(plan) <= CHEAP


def _costs(plan: Plan) -> Costs:
    if isinstance(plan, MegatronPlan):
        return MEGATRON
    return SPLIT if plan.layout.schedule in SPLIT_BACKWARD else PYTORCH
