"""One step of a model without a pipeline, moment by moment, and the highest of them.

Forward runs the segments in order and keeps what they save; backward gives it back and leaves
gradients. Units are gathered before they run, and their gradients reduced after their backward.
The maximum is taken over moments jointly: a sum of maxima is not a peak.
"""

from collections.abc import Iterator
from typing import NamedTuple

from trainfit.estimator.frameworks.pytorch.ledger import Ledger
from trainfit.estimator.frameworks.pytorch.states import Numbers, Shares, States
from trainfit.estimator.frameworks.pytorch.units import NONE, Unit, unit_of
from trainfit.estimator.peak import PlacedSegment
from trainfit.estimator.placement import Content
from trainfit.estimator.results import Peak
from trainfit.estimator.segment import Moment, Segment


class Live(NamedTuple):
    """Bytes alive at one moment besides stored weights and optimizer states."""

    gradients: int
    kept: int
    borrowed: int
    buffers: int
    peak: Peak
    gathering: int = 0
    """The part of `buffers` into which units are gathered."""

    @property
    def total(self) -> int:
        return self.gradients + self.kept + self.borrowed + self.buffers


class Stretch(NamedTuple):
    """A segment, and the unit that is gathered for it: NONE where it stands in the root."""

    placed: PlacedSegment
    unit: Unit


def optimizer_step(states: States, gradients: int = 0) -> Live:
    """No activation is there, and every gradient; `gradients` where they take more than their
    elements.
    """
    peak = Peak("optimizer_step", "optimizer", None, None)
    return Live(max(states.gradients, gradients), 0, states.step, 0, peak)


def standing_gradients(numbers: Numbers, states: States, ledger: Ledger) -> int:
    """Gradients that earlier micro-batches left. FSDP keeps them whole, in the type in which they
    are reduced, until the last one, unless it reduces after each.
    """
    plan = ledger.plan
    if plan.batch.num_microbatches == 1 or plan.step.optimizer.in_backward:
        return 0
    policy = plan.step.data_parallelism
    if policy.engine in ("fsdp1", "fsdp2") and not policy.sync_each_micro_batch:
        sharded = plan.layout.sharding in ("optim_grads", "optim_grads_params")
        return plan.step.states.reduced * numbers.trained if sharded else states.gradients
    return states.gradients


class Step:
    """The moments of one micro-batch: the last one where there are several."""

    def __init__(
        self, ledger: Ledger, shares: Shares, content: Content, states: States, numbers: Numbers
    ) -> None:
        plan = ledger.plan
        self._ledger, self._states = ledger, states
        self._standing = standing_gradients(numbers, states, ledger)
        self._leaves = not (self._standing or plan.step.optimizer.in_backward)
        self._reshards = plan.step.data_parallelism.reshard_after_forward
        self._offloads = plan.step.offload_activations
        embedding, rest = shares.outside(content)
        apart = plan.step.data_parallelism.embedding_and_head_apart
        first, last = (unit_of(each, plan) if apart else NONE for each in (embedding, rest))
        self._root = NONE if apart else unit_of(embedding.plus(rest), plan)
        units = {kind: unit_of(shares.layer(kind), plan) for kind in set(content.kinds)}
        self._stretches = [
            Stretch(
                placed,
                units[placed.kind]
                if placed.kind is not None
                else first
                if placed.segment.name == "embedding"
                else last,
            )
            for placed in ledger.segments(content)
        ]

    @property
    def units(self) -> list[Unit]:
        return [self._root, *(unit for _, unit in self._stretches)]

    def highest(self) -> Live:
        return max(self._moments(), key=lambda live: live.total)

    def _moments(self) -> Iterator[Live]:
        yield from self._forward()
        yield from self._backward()

    def _forward(self) -> Iterator[Live]:
        """What was gathered for a unit stays in its buffer until the next unit is gathered."""
        saved, whole, buffered = 0, self._root.weights, 0
        for placed, unit in self._stretches:
            gathering = whole + buffered + unit.fetched + unit.weights
            peak = Peak("all_gather", "all_gather", placed.layer, None)
            yield Live(self._standing, saved, 0, gathering, peak)
            buffered = unit.fetched or buffered
            buffers = whole + unit.weights + buffered
            yield self._at(placed, placed.segment.forward, "forward", saved, 0, buffers, buffered)
            saved += 0 if self._is_offloaded(placed) else placed.segment.saved
            whole += 0 if self._reshards else unit.weights

    def _backward(self) -> Iterator[Live]:
        """The last unit was not let go of. While a unit runs backward the one before it is being
        gathered, and the gradients of the one behind it are being reduced.
        """
        kept = [
            0 if self._is_offloaded(each.placed) else each.placed.segment.saved
            for each in self._stretches
        ]
        saved, made, whole_gradients = sum(kept), 0, 0
        behind = NONE
        resident = self._root.weights
        if not self._reshards:
            resident += sum(unit.weights for _, unit in self._stretches)
        for index in reversed(range(len(self._stretches))):
            placed, unit = self._stretches[index]
            segment = placed.segment
            saved -= kept[index]
            fetched = self._next_fetched(index, unit) if self._reshards else 0
            own = unit.weights if self._reshards else 0
            buffers = resident + own + fetched + behind.reducing
            gradients = made + whole_gradients
            restored = segment.saved if self._is_offloaded(placed) else 0
            kept_now = saved + restored
            yield self._at(
                placed, segment.backward, "backward", kept_now, gradients, buffers, fetched
            )
            if unit is NONE:
                whole_gradients += segment.gradients * self._leaves
            elif (
                index == 0 or self._stretches[index - 1].unit is not unit or placed.kind is not None
            ):
                made += unit.left * self._leaves
                behind = unit
                resident -= 0 if self._reshards else unit.weights
        yield self._reduction(made, whole_gradients)
        alone = self._root.weights == 0
        yield optimizer_step(self._states, (made + whole_gradients) * alone)

    def _next_fetched(self, index: int, unit: Unit) -> int:
        """The buffer of the unit that runs backward after this one."""
        for placed, earlier in reversed(self._stretches[:index]):
            if earlier is not NONE and (earlier is not unit or placed.kind is not None):
                return earlier.fetched
        return 0

    def _reduction(self, made: int, whole_gradients: int) -> Live:
        """The root's gradients, whole, beside the buffer from which they are reduced."""
        root = self._root
        peak = Peak("end_of_backward", "reduce_scatter", None, None)
        standing = self._standing if self._standing else made + whole_gradients
        return Live(standing, 0, 0, root.reducing, peak)

    def _at(
        self,
        placed: PlacedSegment,
        moment: Moment,
        direction: str,
        saved: int,
        gradients: int,
        buffers: int,
        gathering: int,
    ) -> Live:
        segment: Segment = placed.segment
        return Live(
            self._standing + gradients,
            saved + moment.kept,
            moment.borrowed,
            buffers,
            Peak(f"{segment.name}_{direction}", moment.operation, placed.layer, None),
            gathering,
        )

    def _is_offloaded(self, placed: PlacedSegment) -> bool:
        return self._offloads and placed.kind is not None
