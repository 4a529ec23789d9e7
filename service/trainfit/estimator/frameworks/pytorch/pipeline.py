"""The highest moment of a pipeline rank under torch.distributed.pipelining.

Weights stay gathered from the first micro-batch to the last where they are not let go of after
forward, and gradients add up whole until the last backward has run. Source:
torch/distributed/pipelining/stage.py (backward_maybe_with_nosync).
"""

from typing import NamedTuple

from trainfit.estimator.frameworks.pytorch.states import Numbers, Shares, States
from trainfit.estimator.frameworks.pytorch.step import Live, optimizer_step
from trainfit.estimator.frameworks.pytorch.units import Unit, accumulated, unit_of
from trainfit.estimator.peak import PricedChunk, price_chunk, stage_peak
from trainfit.estimator.placement import Content, Placement
from trainfit.estimator.results import Peak


class Gathering(NamedTuple):
    """What a chunk saves and borrows, and the units of its layers and of all else."""

    priced: PricedChunk
    layers: list[Unit]
    outside: list[Unit]


class Pipeline:
    """The ranks of a plan. Equal chunks are worked out once, on whichever ranks they are."""

    def __init__(self, shares: Shares) -> None:
        self._shares, self._ledger = shares, shares.ledger
        self._chunks: dict[Content, Gathering] = {}
        self._by_kind: dict[int, Unit] = {}

    def highest(
        self, rank: int, placements: list[Placement], states: States, numbers: Numbers
    ) -> Live:
        """The highest of the schedule's turns, of the reduction at their end and of the step."""
        plan = self._ledger.plan
        chunks = [self._chunk(placement.content) for placement in placements]
        layers = [unit for chunk in chunks for unit in chunk.layers]
        outside = [unit for chunk in chunks for unit in chunk.outside]
        whole = sum([unit.weights for unit in outside])
        if plan.step.data_parallelism.reshard_after_forward:
            whole += 2 * max([unit.weights for unit in layers], default=0)
        else:
            whole += sum([unit.weights for unit in layers])
        gradients = sum(accumulated(numbers, states, plan))
        firsts = [placement.layers.start for placement in placements]
        priced = [chunk.priced for chunk in chunks]
        running = stage_peak(plan, self._ledger.sizes.act, priced, firsts, rank)
        reducing = max([unit.reducing for unit in (*layers, *outside)], default=0)
        return max(
            Live(gradients, running.kept, running.borrowed, whole + running.pipeline, running.peak),
            Live(gradients, 0, 0, reducing, Peak("end_of_backward", "reduce_scatter", None, None)),
            optimizer_step(states),
            key=lambda live: live.total,
        )

    def _chunk(self, content: Content) -> Gathering:
        if content not in self._chunks:
            self._chunks[content] = Gathering(
                price_chunk(self._ledger, content),
                [self._unit(kind) for kind in content.kinds],
                [unit_of(part, self._ledger.plan) for part in self._shares.outside(content)],
            )
        return self._chunks[content]

    def _unit(self, kind: int) -> Unit:
        if kind not in self._by_kind:
            self._by_kind[kind] = unit_of(self._shares.layer(kind), self._ledger.plan)
        return self._by_kind[kind]
