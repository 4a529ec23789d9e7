"""What every rank holds of the model under Megatron."""

from __future__ import annotations

from collections.abc import Callable
from itertools import chain
from typing import TYPE_CHECKING, NamedTuple

from trainfit.estimator.frameworks.megatron.chunks import MegatronLedger
from trainfit.estimator.frameworks.megatron.states import (
    StateSharding,
    bucket_padding,
    frozen_bytes,
    state_bytes,
)
from trainfit.estimator.local_parameters import ChunkParameters, Local, ParameterTable
from trainfit.estimator.memo import Memo
from trainfit.estimator.peak import ActivationPeak, optimizer_step
from trainfit.estimator.placement import Content, Placed
from trainfit.estimator.results import Component, ComponentName
from trainfit.estimator.run import MegatronRun

if TYPE_CHECKING:
    from trainfit.estimator.frameworks.megatron.whole_units import WholeUnits


class MegatronRankState(NamedTuple):
    """What a rank holds of the model for the whole step, `moments` of it from the end of the first
    one on. `stepping` is its optimizer step, `beside_bytes` what is whole beside its shares all the
    time, `padding_bytes` what padded buckets take.
    """

    chunks: tuple[ChunkParameters, ...]
    states: tuple[Component, ...]
    moments: int
    stepping: ActivationPeak
    beside_bytes: int
    padding_bytes: int
    experts: bool


def adapters_of(run: MegatronRun, memo: Memo) -> tuple[Local, ...]:
    """Adapters of a layer of each kind, which no linear reads in fp8; none where the model itself
    is trained.
    """
    if run.step.adapters is None:
        return ()
    alone = run._replace(tp=1, sequence_parallel=False, etp=1)
    here, whole = (map(sum, memo(MegatronLedger, each).adapters()) for each in (run, alone))
    return tuple(
        [
            Local(count, dense=local, linear=local, wide_linear=local)
            for count, local in zip(whole, here, strict=True)
        ]
    )


def held_by_ranks(
    placed: Placed,
    table: ParameterTable,
    trained: ParameterTable,
    sharding: StateSharding,
    adapters: tuple[Local, ...],
    by_muon: MegatronLedger | None,
    whole: WholeUnits | None,
) -> list[MegatronRankState]:
    """What ranks hold, of which those in the second table are `trained`; `by_muon` are the products
    whose matrices Muon steps, if it does. Of units that are gathered, some may be `whole`.
    """
    muon = None if by_muon is None else _muon(placed, table, sharding, by_muon)

    def held(contents: tuple[Content, ...]) -> MegatronRankState:
        parameters = tuple([table.chunk(content) for content in contents])
        model = sum((chunk.all for chunk in parameters), Local())
        embedding = max([max(chunk.embedding, chunk.output_layer) for chunk in parameters])
        local, frozen, below, of_experts_below = model, Local(), 0, 0
        if adapters:
            kinds = [kind for content in contents for kind in content.kinds]
            local, frozen = sum((adapters[kind] for kind in kinds), Local()), model
        elif trained is not table:
            local = sum((trained.chunk(content).all for content in contents), Local())
            frozen = model.minus(local)
        if frozen.whole:
            below = frozen_bytes(frozen, sharding)
            of_experts_below = frozen_bytes(frozen.of_experts, sharding)
        if sharding.has_copy:
            below += frozen_bytes(model, sharding)
            of_experts_below += frozen_bytes(model.of_experts, sharding)
        sizes = state_bytes(local, sharding, 0 if adapters else embedding)
        of_experts = state_bytes(local.of_experts, sharding)
        beside = borrowed = 0
        padding = bucket_padding(local, sharding)
        if muon is not None and not adapters:
            borrowed, padding = muon(contents, local, embedding)
        if whole is not None:
            beside = whole.standing(contents)

        def state(name: ComponentName, of: Local, size: int, of_experts: int) -> Component:
            here = of.dense + of.expert
            each = size / here if here else 0.0
            return Component(name, size, of.whole, here, each, of_experts)

        weights = sizes.weights + below
        expert_weights = of_experts.weights + of_experts_below
        return MegatronRankState(
            parameters,
            (
                state("weights", local + frozen, weights, expert_weights),
                state("gradients", local, sizes.gradients, of_experts.gradients),
                state("optimizer_states", local, sizes.optimizer, of_experts.optimizer),
            ),
            moments=sizes.moments,
            stepping=optimizer_step(sizes.step + borrowed),
            beside_bytes=beside,
            padding_bytes=padding,
            experts=model.expert > 0,
        )

    each = {contents: held(contents) for contents in placed.distinct}
    return [each[contents] for contents in placed.contents]


def _muon(
    placed: Placed, table: ParameterTable, sharding: StateSharding, ledger: MegatronLedger
) -> Callable[[tuple[Content, ...], Local, int], tuple[int, int]] | None:
    """What its step borrows on a rank of such chunks, and what pads their buffers."""
    if sharding.muon is None:
        return None
    from trainfit.estimator.frameworks.megatron.matrices import muon_bytes
    from trainfit.estimator.frameworks.megatron.requests.parameters import PipelineParameters

    step, shapes = sharding.muon, ledger.gemm_shapes(tuple(chain.from_iterable(placed.contents)))
    parameters = PipelineParameters(table, shapes, words=False, head=False, frozen=False)

    def of(contents: tuple[Content, ...], local: Local, embedding: int) -> tuple[int, int]:
        return muon_bytes(contents, parameters, local, embedding, sharding, step)

    return of
