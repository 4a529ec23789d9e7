"""One step of a model without a pipeline, moment by moment, and the highest of them.

Forward runs the segments in order and keeps what they save; backward gives it back and leaves
gradients. Units are gathered before they run, and their gradients reduced after their backward.
The maximum is taken over moments jointly: a sum of maxima is not a peak.
"""

from collections.abc import Iterator
from typing import NamedTuple

from trainfit.estimator.frameworks.pytorch.conventions import conventions_of
from trainfit.estimator.frameworks.pytorch.engines.fsdp import keeps_inputs, prefetches_backward
from trainfit.estimator.frameworks.pytorch.engines.registry import engine_of
from trainfit.estimator.frameworks.pytorch.ledger import PytorchLedger
from trainfit.estimator.frameworks.pytorch.reference import (
    has_copy,
    leaves_root_whole,
    running,
)
from trainfit.estimator.frameworks.pytorch.scoring import scoring
from trainfit.estimator.frameworks.pytorch.states import Numbers, Shares, States
from trainfit.estimator.frameworks.pytorch.stretches import Stretch, stretches, within_runs
from trainfit.estimator.frameworks.pytorch.units import NONE, Unit
from trainfit.estimator.ledger import OperationKind
from trainfit.estimator.operations.widths import FP32
from trainfit.estimator.peak import PlacedSegment
from trainfit.estimator.placement import Content
from trainfit.estimator.results import Peak
from trainfit.estimator.segment import Moment
from trainfit.resolve.pytorch.plan import PytorchPlan


class Live(NamedTuple):
    """Bytes alive at one moment besides stored weights and optimizer states."""

    gradients: int
    kept: int
    borrowed: int
    buffers: int
    peak: Peak
    gathering: int = 0
    """The part of `buffers` into which units are gathered."""
    kind: OperationKind | None = None
    """Of the operation at the peak."""
    away: int = 0
    """States of the optimizer that wait in host memory meanwhile."""

    @property
    def total(self) -> int:
        return self.gradients + self.kept + self.borrowed + self.buffers - self.away


def optimizer_step(states: States, gradients: int = 0) -> Live:
    """No activation is there, and every gradient; `gradients` where they take more than their
    elements.
    """
    peak = Peak("optimizer_step", "optimizer", None, None)
    return Live(max(states.gradients, gradients), 0, states.step, 0, peak)


def is_loss_outside(plan: PytorchPlan) -> bool:
    """Whether the loss is computed outside the root's forward, so that its backward begins before
    the last layer is being gathered. transformers computes it inside.
    """
    chunked = plan.step.cross_entropy == "chunked"
    return chunked or not conventions_of(plan).loss_in_forward


def leaves_last_layer_whole(plan: PytorchPlan) -> bool:
    """Whether the last layer's unit is not let go of behind its forward: torchtitan did so while
    embedding and head belonged to the root (parallelize_llama.py: apply_fsdp).
    """
    policy = plan.step.data_parallelism
    return is_loss_outside(plan) and not policy.embedding_and_head_apart


class MicroBatchStep:
    """The moments of one micro-batch: the last one where there are several. Of a run of equal
    stretches, along which memory changes by the same amount, those of its ends.
    """

    def __init__(
        self,
        ledger: PytorchLedger,
        shares: Shares,
        content: Content,
        states: States,
        numbers: Numbers,
    ) -> None:
        plan = ledger.plan
        self._states, self._act = states, ledger.sizes.act
        self._standing = engine_of(plan).accumulated(numbers, states)
        self._reshards = plan.step.data_parallelism.reshard_after_forward
        self._alone = plan.layout.sharding == "no_shard"
        self._loss_outside = is_loss_outside(plan)
        self._prefetches = conventions_of(plan).experts_are_prefetched and plan.layout.ep > 1
        apart = plan.step.data_parallelism.embedding_and_head_apart
        self._head_outside = self._loss_outside or apart
        self._prefetches_backward, self._keeps_inputs = (
            prefetches_backward(plan),
            keeps_inputs(plan),
        )
        self._root, self._forwards, self._backwards = stretches(ledger, shares, content)
        self._beside = list(running(ledger, content))
        self._scored = list(scoring(plan, content))
        policy = plan.step.policy
        waits = policy is not None and not policy.beside_optimizer
        self._away = states.optimizer if waits else 0
        sizes, answers = ledger.sizes, policy is not None and policy.holds_answer
        self._answer = FP32 * sizes.n * sizes.V if answers else 0
        self._copied = has_copy(plan) and plan.runs_reference and not leaves_root_whole(plan)
        """Whether a reference that runs has weights of its own, gathered as the policy's are while
        it does.
        """
        self._within = within_runs(self._forwards), within_runs(self._backwards)
        layers = [i for i, each in enumerate(self._forwards) if each.placed.layer is not None]
        self._left_whole = layers[-1:] if leaves_last_layer_whole(plan) else []

    @property
    def units(self) -> list[Unit]:
        return [self._root, *(stretch.unit for stretch in self._forwards)]

    def highest(self) -> Live:
        return max(self._moments(), key=lambda live: live.total)

    def _moments(self) -> Iterator[Live]:
        yield from self._scoring()
        yield from self._forward()
        yield from self._reference()
        yield from self._backward()

    def _forward(self) -> Iterator[Live]:
        """What was gathered for a unit stays in its buffer until the next unit is gathered. With
        expert parallelism torchtitan has the next one gathered meanwhile. What autocast has
        narrowed goes when it ends.
        """
        saved, whole, all_gather_kept = 0, self._root.weights, self._root.all_gather_kept
        standing, residual = self._standing.whole + self._standing.sharded, 0
        cached = narrowed = 0
        for index, (placed, unit, _, around, *_) in enumerate(self._forwards):
            if index not in self._within[0]:
                gathering = whole + around.weights + all_gather_kept + unit.while_gathered
                peak = Peak(f"{placed.segment.name}_forward", "all_gather", placed.layer, None)
                yield Live(standing, saved + cached + narrowed, residual, gathering, peak)
                residual = self._act
                outside = self._loss_outside and placed.segment.name == "head"
                all_gather_kept = all_gather_kept if unit is NONE else unit.all_gather_kept
                buffered = 0 if outside else all_gather_kept + self._prefetched(index)
                copied = self._copied and placed.segment.name == "head"
                buffers = whole * (1 + copied) + around.weights + unit.weights + buffered
                held = saved + cached
                moments = placed.segment.apart or (placed.segment.forward,)
                for moment, narrow in zip(moments, (narrowed, 0), strict=False):
                    kept = held + narrow
                    yield _at(placed, moment, "forward", kept, standing, buffers, buffered)
            saved += placed.segment.saved
            cached += placed.segment.cached
            narrowed += placed.segment.narrowed
            whole += 0 if self._lets_go(index) else unit.weights

    def _scoring(self) -> Iterator[Live]:
        """Layers and the head, without gradients, before the step."""
        units = {stretch.placed.layer: stretch.unit for stretch in self._forwards}
        names = {stretch.placed.segment.name: stretch.unit for stretch in self._forwards}
        for placed, made, stream in self._scored:
            unit = names[placed.name] if placed.layer is None else units[placed.layer]
            buffers = self._root.weights + unit.weights + unit.all_gather_kept
            peak = Peak("scoring", placed.name, placed.layer, None)
            yield Live(0, 0, made + stream, buffers, peak, away=self._away)

    def _reference(self) -> Iterator[Live]:
        """Layers of a reference, which run when the policy has, and keep nothing."""
        standing = self._standing.whole + self._standing.sharded
        saved = sum(stretch.placed.segment.saved for stretch in self._forwards)
        units = {stretch.placed.layer: stretch.unit for stretch in self._forwards}
        whole = self._root.weights * (1 + self._copied)
        for placed, made, held, left, stream in self._beside:
            unit = units[placed.layer]
            buffers = whole + unit.weights + unit.all_gather_kept
            peak = Peak("reference_forward", placed.name, placed.layer, None)
            yield Live(standing, saved + held + left, made + stream, buffers, peak)

    def _backward(self) -> Iterator[Live]:
        """The last unit was not let go of. While a unit runs backward the one before it is being
        gathered, and the gradients of the one behind it are being reduced. Gradients of the root
        stay whole to the end, those of a unit until its first segment has run. Where inputs of
        layers [n', h] are kept, so are their gradients: all but the one that the next layer reads.
        """
        saved = sum(stretch.placed.segment.saved for stretch in self._forwards)
        standing, sharded, root = self._standing.whole, self._standing.sharded, 0
        resident, behind, waiting, ran = self._root.weights, NONE, 0, 0
        for index, stretch in enumerate(self._forwards):
            resident += 0 if self._lets_go(index) or not stretch.last else stretch.unit.weights
        for index in reversed(range(len(self._backwards))):
            stretch = self._backwards[index]
            placed, unit, segment = stretch.placed, stretch.unit, stretch.placed.segment
            if not placed.runs_backward:
                break
            gradients, ends = standing + sharded + root + waiting, index not in self._within[1]
            if stretch.again is not None:
                yield self._again(stretch, saved, gradients, resident + behind.reduce_scatter_kept)
                saved += stretch.again.layer.saved
            whole, lets_go = resident + stretch.around.weights, self._lets_go(index)
            all_gather = self._prefetched_behind(index) if ends else 0
            if ends and lets_go and stretch.last:
                copied = whole + unit.while_gathered + behind.reduce_scatter_kept
                peak = Peak(f"{segment.name}_backward", "all_gather", placed.layer, None)
                yield Live(gradients, saved, self._act, copied, peak)
            saved -= segment.saved
            if ends:
                own = unit.weights if lets_go else 0
                buffers = whole + all_gather + behind.reduce_scatter_kept + own
                yield _at(
                    placed, segment.backward, "backward", saved, gradients, buffers, all_gather
                )
            saved += self._answer if segment.name == "head" else 0
            saved -= stretch.released
            if self._keeps_inputs and placed.layer is not None:
                saved += self._act if ran == 0 else 2 * self._act
                ran += 1
            if unit is NONE:
                root += segment.gradients
                continue
            if stretch.around is NONE:
                waiting = 0 if stretch.last else waiting + segment.gradients
            if stretch.last:
                resident -= 0 if lets_go else unit.weights
                whole = resident + stretch.around.weights
                if ends:
                    yield self._reduced(stretch, saved, gradients, whole + all_gather)
                sharded += unit.gradients
                standing -= min(standing, unit.accumulated)
                behind = unit
        yield from self._end(standing, sharded, root)

    def _lets_go(self, index: int) -> bool:
        """Whether what was gathered for a stretch is let go of behind its forward."""
        return self._reshards and index not in self._left_whole

    def _again(self, stretch: Stretch, saved: int, gradients: int, buffers: int) -> Live:
        """The layer of the stretch at its highest while it runs forward again."""
        assert stretch.again is not None
        moment = stretch.again.layer.forward
        moment = moment._replace(borrowed=moment.borrowed + self._act)
        buffers += stretch.again.buffers
        return _at(stretch.placed, moment, "backward", saved, gradients, buffers, 0)

    def _reduced(self, stretch: Stretch, saved: int, gradients: int, buffers: int) -> Live:
        """The gradients of the unit that has run, beside the buffer into which they are copied to
        be reduced. Those that were added to earlier ones are gone.
        """
        placed, unit = stretch.placed, stretch.unit
        peak = Peak(f"{placed.segment.name}_backward", "reduce_scatter", placed.layer, None)
        made = 0 if unit.accumulated and not unit.joins else placed.segment.gradients
        flows = 0 if placed.segment.name == "embedding" else self._act
        return Live(gradients + made, saved, flows, buffers + unit.reduce_scatter, peak)

    def _end(self, standing: int, sharded: int, root: int) -> Iterator[Live]:
        """The root's gradients, added to those of earlier micro-batches, beside the buffer from
        which they are reduced; then the optimizer's step.
        """
        peak = Peak("end_of_backward", "reduce_scatter", None, None)
        whole = sharded + max(standing, root)
        yield Live(whole, self._answer, 0, self._root.reduce_scatter, peak)
        step = optimizer_step(self._states, whole if self._alone else 0)
        yield step._replace(kept=self._answer)

    def _prefetched(self, index: int) -> int:
        """The buffer of the unit that runs forward after this stretch, where it is gathered by
        then.
        """
        following = self._forwards[index + 1 : index + 2]
        ahead = self._prefetches and following and following[0].last
        return following[0].unit.all_gather if ahead else 0

    def _prefetched_behind(self, index: int) -> int:
        """The buffer of the unit that is next while this stretch runs backward."""
        segment = self._backwards[index].placed.segment
        outside = self._head_outside and segment.name == "head"
        return self._next_all_gather(index) if self._reshards and not outside else 0

    def _next_all_gather(self, index: int) -> int:
        """The buffer of the unit that runs backward after this one, and the one around it."""
        if not self._prefetches_backward:
            return 0
        own = self._backwards[index]
        if own.around is not NONE:
            return self._next_all_gather(index - 1)
        for place in reversed(range(index)):
            unit = self._backwards[place].unit
            same = unit is own.unit and not own.last
            if unit is not NONE and not same:
                return unit.all_gather if self._lets_go(place) else 0
        return 0


def _at(
    placed: PlacedSegment,
    moment: Moment,
    direction: str,
    saved: int,
    gradients: int,
    buffers: int,
    gathering: int,
) -> Live:
    peak = Peak(f"{placed.segment.name}_{direction}", moment.operation, placed.layer, None)
    kept = saved + moment.kept
    return Live(gradients, kept, moment.borrowed, buffers, peak, gathering, moment.kind)
