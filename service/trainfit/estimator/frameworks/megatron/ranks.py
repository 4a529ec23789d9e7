"""Every pipeline rank of a plan under Megatron, at its peak."""

from collections.abc import Iterator
from functools import cache
from typing import NamedTuple

from trainfit.estimator.frameworks.megatron.buffers import Buffers, standing_buffers
from trainfit.estimator.frameworks.megatron.chunks import Ledger
from trainfit.estimator.frameworks.megatron.states import (
    bucket_padding,
    state_bytes,
    unsharded_units,
)
from trainfit.estimator.local_parameters import ChunkParameters, Local, ParameterTable
from trainfit.estimator.peak import optimizer_step, price_chunk, stage_peak
from trainfit.estimator.placement import Content, place
from trainfit.estimator.rank import Rank
from trainfit.estimator.results import Component, ComponentName
from trainfit.resolve.plan import MegatronPlan


def ranks(plan: MegatronPlan, table: ParameterTable, *, activations: bool) -> Iterator[Rank]:
    """The ranks in order; ranks that hold equal chunks share the work.

    Without `activations` only model states and standing buffers are counted.
    """
    ledger = Ledger(plan)
    hold = cache(lambda contents: _holding(contents, table, ledger))
    price = cache(lambda content: price_chunk(ledger, content))
    for rank, placements in enumerate(place(plan)):
        contents = tuple([placement.content for placement in placements])
        holding = hold(contents)
        highest = optimizer_step(holding.step_bytes)
        if activations:
            firsts = [placement.layers.start for placement in placements]
            running = stage_peak(ledger, [price(content) for content in contents], firsts, rank)
            highest = max(running, highest, key=lambda moment: moment.total)
        buffers = holding.buffers
        yield Rank(
            placements=placements,
            parameters=holding.chunks,
            states=holding.states,
            activations=highest.kept,
            workspace=highest.borrowed + buffers.workspace,
            framework_buffers=highest.pipeline + buffers.framework,
            routed=highest.kept + highest.borrowed if holding.dropless else 0,
            peak=highest.peak,
        )


class Holding(NamedTuple):
    """What a rank holds for the whole step. `step_bytes` is what its optimizer step borrows,
    `dropless` whether its experts take whatever is routed to them.
    """

    chunks: tuple[ChunkParameters, ...]
    states: tuple[Component, ...]
    step_bytes: int
    dropless: bool
    buffers: Buffers


def _holding(contents: tuple[Content, ...], table: ParameterTable, ledger: Ledger) -> Holding:
    plan = ledger.plan
    chunks = tuple([table.chunk(content) for content in contents])
    local = sum((chunk.all for chunk in chunks), Local())
    here = local.dense + local.expert
    sizes = state_bytes(local, plan)
    units = unsharded_units([unit for each in contents for unit in table.units(each)], plan)
    buffers = standing_buffers(
        ledger.gemm_shapes(contents),
        ledger.shared_buffers,
        has_experts=local.expert > 0,
        has_head=any(content.output_layer for content in contents),
        sizes=ledger.sizes,
        plan=plan,
    )

    def state(name: ComponentName, size: int) -> Component:
        return Component(name, size, local.whole, here, size / here if here else 0.0)

    states = (
        state("weights", sizes.weights),
        state("gradients", sizes.gradients),
        state("optimizer_states", sizes.optimizer),
    )
    padding = bucket_padding(local, plan)
    buffers = buffers._replace(framework=buffers.framework + units + padding)
    dropless = local.expert > 0 and not plan.routing.pad_to_capacity
    return Holding(chunks, states, sizes.step, dropless, buffers)
