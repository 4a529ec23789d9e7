"""The highest moment of a pipeline rank under torch.distributed.pipelining.

Weights stay gathered from the first micro-batch to the last where they are not let go of after
forward, and gradients add up whole until the last backward has run. Source:
torch/distributed/pipelining/stage.py (backward_maybe_with_nosync).
"""

from trainfit.estimator.frameworks.pytorch.ledger import Ledger
from trainfit.estimator.frameworks.pytorch.states import Numbers, Shares, States
from trainfit.estimator.frameworks.pytorch.step import Live, optimizer_step
from trainfit.estimator.frameworks.pytorch.units import accumulated, unit_of
from trainfit.estimator.peak import price_chunk, stage_peak
from trainfit.estimator.placement import Placement
from trainfit.estimator.results import Peak


def highest_on_rank(
    rank: int,
    placements: list[Placement],
    ledger: Ledger,
    shares: Shares,
    states: States,
    numbers: Numbers,
) -> Live:
    """The highest of the schedule's turns, of the reduction at their end and of the step."""
    plan = ledger.plan
    contents = [placement.content for placement in placements]
    layers = [kind for each in contents for kind in each.kinds]
    by_kind = {kind: unit_of(shares.layer(kind), plan) for kind in set(layers)}
    units = [by_kind[kind] for kind in layers]
    outside = [unit_of(part, plan) for each in contents for part in shares.outside(each)]
    whole = sum(unit.weights for unit in outside)
    if plan.step.data_parallelism.reshard_after_forward:
        whole += 2 * max((unit.weights for unit in units), default=0)
    else:
        whole += sum(unit.weights for unit in units)
    gradients = sum(accumulated(numbers, states, plan))
    firsts = [placement.layers.start for placement in placements]
    chunks = [price_chunk(ledger, each) for each in contents]
    running = stage_peak(ledger.plan, ledger.sizes.act, chunks, firsts, rank)
    reducing = max((unit.reducing for unit in (*units, *outside)), default=0)
    return max(
        Live(gradients, running.kept, running.borrowed, whole + running.pipeline, running.peak),
        Live(gradients, 0, 0, reducing, Peak("end_of_backward", "reduce_scatter", None, None)),
        optimizer_step(states),
        key=lambda live: live.total,
    )
