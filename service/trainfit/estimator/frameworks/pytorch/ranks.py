"""Every pipeline rank of a plan under torchtitan or transformers, at its peak."""

from collections.abc import Iterator

from trainfit.estimator import cublas
from trainfit.estimator.frameworks.pytorch.caching import cached
from trainfit.estimator.frameworks.pytorch.ledger import Ledger
from trainfit.estimator.frameworks.pytorch.pipeline import highest_on_rank
from trainfit.estimator.frameworks.pytorch.states import Numbers, Shares, States, model_states
from trainfit.estimator.frameworks.pytorch.step import Live, Step, optimizer_step
from trainfit.estimator.frameworks.pytorch.units import ddp_buckets, deepspeed_buffers
from trainfit.estimator.local_parameters import ParameterTable
from trainfit.estimator.placement import Placement, place
from trainfit.estimator.rank import Rank
from trainfit.estimator.results import Component, ComponentName
from trainfit.resolve.plan import PytorchPlan

NO_NUMBERS = Numbers(0, 0, 0, 0, 0)


def ranks(plan: PytorchPlan, table: ParameterTable, *, activations: bool) -> Iterator[Rank]:
    """The ranks in order. Without `activations` only model states and standing buffers count."""
    ledger = Ledger(plan)
    shares = Shares(table, ledger)
    for number, placements in enumerate(place(plan)):
        held = [shares.chunk(placement.content) for placement in placements]
        numbers = NO_NUMBERS
        for _, each in held:
            numbers = numbers.plus(each)
        largest = max(table.largest(placement.content) for placement in placements)
        states = model_states(numbers, largest, plan)
        live, unused = optimizer_step(states), 0
        if activations:
            live, unused = _highest(number, placements, ledger, shares, states, numbers)
        buffers = _standing(placements, numbers, largest, shares, plan)
        whole = sum(parameters.all.whole for parameters, _ in held)
        here = sum(parameters.all.dense + parameters.all.expert for parameters, _ in held)
        yield Rank(
            placements=placements,
            parameters=tuple([parameters for parameters, _ in held]),
            states=_components(states, live, whole, here),
            activations=live.kept,
            workspace=live.borrowed + cublas.workspaces(plan.card.compute_capability),
            framework_buffers=live.buffers + buffers,
            routed=0,
            peak=live.peak,
            cached=unused,
        )


def _highest(
    number: int,
    placements: list[Placement],
    ledger: Ledger,
    shares: Shares,
    states: States,
    numbers: Numbers,
) -> tuple[Live, int]:
    """The highest moment, and what the allocator cannot give out then."""
    if ledger.plan.layout.pp > 1:
        return highest_on_rank(number, placements, ledger, shares, states, numbers), 0
    step = Step(ledger, shares, placements[0].content, states, numbers)
    live = step.highest()
    return live, cached(live, step.units, states, ledger.sizes, ledger.plan)


def _standing(
    placements: list[Placement], numbers: Numbers, largest: int, shares: Shares, plan: PytorchPlan
) -> int:
    """Buffers that are there for the whole step."""
    kinds = {kind for placement in placements for kind in placement.content.kinds}
    units = [shares.layer(kind) for kind in kinds]
    widest = max(units, key=lambda unit: unit.trained + unit.frozen, default=numbers)
    return ddp_buckets(numbers, plan) + deepspeed_buffers(numbers, widest, largest, plan)


def _components(
    states: States, live: Live, whole: int, here: int
) -> tuple[Component, Component, Component]:
    def state(name: ComponentName, size: int) -> Component:
        return Component(name, size, whole, here, size / here if here else 0.0)

    return (
        state("weights", states.weights),
        state("gradients", live.gradients),
        state("optimizer_states", states.optimizer),
    )
