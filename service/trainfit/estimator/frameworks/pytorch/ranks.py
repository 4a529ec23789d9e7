"""Every pipeline rank of a plan under torchtitan or transformers, at its peak."""

from collections.abc import Iterator
from typing import NamedTuple

from trainfit.estimator import cublas
from trainfit.estimator.frameworks.pytorch.caching import cached
from trainfit.estimator.frameworks.pytorch.engines.engine import StageNumbers
from trainfit.estimator.frameworks.pytorch.engines.registry import engine_of
from trainfit.estimator.frameworks.pytorch.pipeline import PipelinedRanks
from trainfit.estimator.frameworks.pytorch.reference import leaves_root_whole, weights_of_copy
from trainfit.estimator.frameworks.pytorch.states import (
    Numbers,
    Shares,
    States,
    model_states,
    shares_of,
    undivided_shares,
)
from trainfit.estimator.frameworks.pytorch.step import Live, MicroBatchStep, optimizer_step
from trainfit.estimator.frameworks.pytorch.towers import bounded, most_bytes
from trainfit.estimator.local_parameters import ChunkParameters, ParameterTable
from trainfit.estimator.memo import Memo
from trainfit.estimator.placement import Content, Placement, place
from trainfit.estimator.rank import Rank, Ranks
from trainfit.estimator.results import Component, ComponentName
from trainfit.resolve.pytorch.plan import PytorchPlan

NO_NUMBERS = Numbers(0, 0, 0, 0, 0)


class PytorchRankState(NamedTuple):
    """What a rank holds for the whole step: the parameters of its chunks, their states, buffers.
    `trained` are elements over all ranks of the stage.
    """

    parameters: tuple[ChunkParameters, ...]
    numbers: Numbers
    trained: int
    states: States
    buffers: int


def ranks(plan: PytorchPlan, table: ParameterTable, memo: Memo, *, activations: bool) -> Ranks:
    """The ranks in order. Without `activations` only model states and standing buffers count."""
    return memo.within(_of_plan, plan, table, activations)


def _of_plan(
    memo: Memo,
    plan: PytorchPlan,
    table: ParameterTable,
    activations: bool,
) -> Ranks:
    return Ranks(_ranks(plan, table, memo, activations=activations))


def _ranks(
    plan: PytorchPlan, table: ParameterTable, memo: Memo, *, activations: bool
) -> Iterator[Rank]:
    shares = shares_of(plan, table, memo)
    undivided = undivided_shares(plan, table, memo) if shares.partly else shares
    pipeline = PipelinedRanks(shares, memo) if plan.layout.pipeline.pp > 1 else None
    alike: dict[tuple[Content, ...], PytorchRankState] = {}
    tower = bounded(plan) if activations else None
    towers = most_bytes(tower, plan) if tower is not None else 0
    for number, placements in enumerate(place(plan)):
        contents = tuple([placement.content for placement in placements])
        if contents not in alike:
            alike[contents] = _held(contents, shares, undivided, table, plan)
        held = alike[contents]
        live, unused = optimizer_step(held.states), 0
        if activations and pipeline is not None:
            live = pipeline.highest(number, placements, held.states)
        elif activations:
            live, unused = _highest(placements[0], held, shares)
        libraries = cublas.workspaces(plan.gpu.compute_capability)
        yield Rank(
            placements=placements,
            parameters=held.parameters,
            states=_components(held, live),
            activations=live.kept,
            workspace=live.borrowed + libraries,
            framework_buffers=live.buffers + held.buffers,
            routed=live.kept + live.borrowed if plan.layout.ep > 1 else 0,
            resident=held.states.weights + held.states.optimizer + held.buffers + libraries,
            peak=live.peak,
            in_flight=1 if pipeline is None else pipeline.loads(number).in_flight,
            towers=towers if number == 0 else 0,
            cached=unused,
        )


def _highest(placement: Placement, held: PytorchRankState, shares: Shares) -> tuple[Live, int]:
    """The highest moment without a pipeline, and what the allocator cannot give out then."""
    ledger = shares.ledger
    step = MicroBatchStep(ledger, shares, placement.content, held.states, held.numbers)
    live = step.highest()
    return live, cached(live, step.units, held.states, ledger.sizes, ledger.plan)


def _held(
    contents: tuple[Content, ...],
    shares: Shares,
    undivided: Shares,
    table: ParameterTable,
    plan: PytorchPlan,
) -> PytorchRankState:
    chunks = [shares.chunk(content) for content in contents]
    numbers = NO_NUMBERS
    for _, each in chunks:
        numbers = numbers.plus(each)
    largest = max(table.largest(content) for content in contents)
    units = [shares.layer(kind) for kind in {kind for each in contents for kind in each.kinds}]
    widest = max(units, key=lambda unit: unit.trained + unit.frozen, default=numbers)
    stage = StageNumbers(numbers, widest, largest, _persistent(contents, table, plan))
    buffers = engine_of(plan).buffers(stage)
    parameters = tuple([parameters for parameters, _ in chunks])
    trained = sum(chunk.all.whole for chunk in parameters)
    if shares.partly:
        trained = sum(undivided.chunk(content)[1].trained for content in contents)
    states = model_states(numbers, largest, plan)
    states = states._replace(weights=states.weights + weights_of_copy(numbers, plan))
    if leaves_root_whole(plan):
        embedding, rest = shares.outside(contents[0])
        buffers += engine_of(plan).unit(embedding.plus(rest)).weights
    return PytorchRankState(parameters, numbers, trained, states, buffers)


def _persistent(contents: tuple[Content, ...], table: ParameterTable, plan: PytorchPlan) -> int:
    """Elements of the parameters that DeepSpeed never lets go of in stage 3."""
    zero = plan.step.data_parallelism.zero
    if zero is None:
        return 0
    return sum(table.small(content, zero.persistence_threshold) for content in contents)


def _components(held: PytorchRankState, live: Live) -> tuple[Component, Component, Component]:
    whole = sum([chunk.all.whole for chunk in held.parameters])
    here = sum([chunk.all.dense + chunk.all.expert for chunk in held.parameters])

    def trained(name: ComponentName, size: int) -> Component:
        here = held.numbers.trained
        return Component(name, size, held.trained, here, size / here if here else 0.0)

    weights = held.states.weights
    return (
        Component("weights", weights, whole, here, weights / here if here else 0.0),
        trained("gradients", live.gradients),
        trained("optimizer_states", held.states.optimizer - live.away),
    )
