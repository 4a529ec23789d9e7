"""How much work the estimate of a plan is, judged by its size before anything is estimated.

Whoever has to answer others meanwhile decides by it where a job is estimated.
"""

from trainfit.estimator.frameworks.registry import framework_of
from trainfit.resolve.plan import Plan

CHEAP = 10_000
"""Work up to which a job is estimated in less than 10 ms, whatever it is."""


PLAN = 1_500
"""What every estimate has: counts of parameters, assumptions, an answer."""


def work(plan: Plan, *, replay: bool = True) -> int:
    """Units of work to estimate a plan and to write the answer, none of it remembered: no more than
    microseconds of one core of a common server. tests/bench prints both. Without `replay` its
    allocator is not replayed.

    Kinds of layers are estimated once, layers are passed one by one, chunks run through the
    schedule of their rank. The number of micro-batches, and sizes that are only multiplied, cost
    nothing.
    """
    layout, costs = plan.layout, framework_of(plan).costs(plan, replay=replay)
    return (
        PLAN
        + costs.once
        + costs.kind * len(plan.model.layer_kinds)
        + costs.layer * (plan.model.num_layers + plan.mtp_layers)
        + costs.rank * layout.pipeline.pp
        + costs.chunk * layout.pipeline.pp * layout.pipeline.vpp * (layout.pipeline.pp > 1)
    )


def is_cheap(plan: Plan, *, replay: bool = True) -> bool:
    """Whether a plan is estimated in less than 10 ms."""
    return work(plan, replay=replay) <= CHEAP
