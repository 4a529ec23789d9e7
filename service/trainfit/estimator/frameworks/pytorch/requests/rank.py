"""The requests of a rank that shares its states out: its part of the model as it is loaded, the
first step, and each later one.

Units are gathered before they run and reduced behind their backward, as their engine does; the
passes between are those of a rank alone.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import chain
from math import ceil

from trainfit.estimator.frameworks.pytorch.conventions import conventions_of
from trainfit.estimator.frameworks.pytorch.ledger import PlacedGroups
from trainfit.estimator.frameworks.pytorch.passing import adds_each
from trainfit.estimator.frameworks.pytorch.recorded_rank import RecordedRank
from trainfit.estimator.frameworks.pytorch.reference import has_copy, leaves_root_whole
from trainfit.estimator.frameworks.pytorch.requests.ddp import DdpRequests
from trainfit.estimator.frameworks.pytorch.requests.engine import EngineRequests
from trainfit.estimator.frameworks.pytorch.requests.fsdp1 import Fsdp1Requests
from trainfit.estimator.frameworks.pytorch.requests.fsdp2 import Fsdp2Requests
from trainfit.estimator.frameworks.pytorch.requests.unit import units_of
from trainfit.estimator.frameworks.pytorch.scoring import scores_beyond_batch
from trainfit.estimator.frameworks.pytorch.states import Shares
from trainfit.estimator.frameworks.pytorch.step import is_loss_outside, leaves_last_layer_whole
from trainfit.estimator.frameworks.pytorch.stretch_passes import (
    NOTHING,
    StretchPasses,
)
from trainfit.estimator.frameworks.pytorch.trace import programs_tell_order
from trainfit.estimator.placement import Content
from trainfit.estimator.tensors import Tensor
from trainfit.estimator.trace.moments import left
from trainfit.estimator.trace.recorder import HeldTensor, Recorder, Trace
from trainfit.resolve.pytorch.plan import PytorchPlan
from trainfit.specs.blocks import Attention, Experts, Mlp
from trainfit.specs.optimizers import OPTIMIZERS

ROOT = -1
"""The place of the root's unit."""


def is_traced(plan: PytorchPlan) -> bool:
    """Whether the order of requests is known of a plan of several ranks without a pipeline: with
    DDP, FullyShardedDataParallel, or fully_shard where all is trained, over replicas of shards too.
    Of several micro-batches under fully_shard it is known where gradients are reduced after each,
    or, without tensor parallelism, wait in the type in which backward has made them; under
    FullyShardedDataParallel of one replica. Losses of preferences are followed but under
    fully_shard, whose releases do or do not let go of a root behind its forward, and without a copy
    beside adapters; samples that are scored where they are no more than those of a micro-batch.
    """
    layout, step = plan.layout, plan.step
    engine = step.data_parallelism.engine
    whole = "no_shard" if engine == "ddp" else "optim_grads_params"
    made = OPTIMIZERS[step.optimizer.name].temporaries.get(step.optimizer.implementation)
    sums = layout.tp > 1 and step.checkpointing.kind == "operations"
    each_time = step.data_parallelism.sync_each_micro_batch or (layout.tp == 1 and adds_each(plan))
    added = each_time if engine == "fsdp2" else layout.replicas == 1
    return (
        layout.num_gpus > 1
        and (plan.batch.num_microbatches == 1 or added)
        and layout.pipeline.pp == layout.ep == 1
        and engine in ("ddp", "fsdp1", "fsdp2")
        and layout.sharding == whole
        and not (engine == "fsdp2" and step.adapters is not None)
        and not (step.autocast and engine != "ddp")
        and not (step.frozen or step.cross_entropy == "chunked" or sums)
        and (made is None or made.like == "second moment")
        and not step.optimizer.paged
        and (step.preference is None or engine != "fsdp2")
        and not (engine == "fsdp1" and step.adapters is not None and has_copy(plan))
        and not scores_beyond_batch(plan)
        and all(len(each.blocks) == 1 for kind in plan.model.layer_kinds for each in kind.sublayers)
        and programs_tell_order(plan, Attention, Mlp, *_experts(plan))
    )


def _experts(plan: PytorchPlan) -> list[type[Experts]]:
    """Experts under FSDP, whose programs may tell the order."""
    sharded = plan.step.data_parallelism.engine != "ddp"
    whole = plan.step.checkpointing.kind != "operations"
    return [Experts] * (sharded and whole and conventions_of(plan).experts_tell_order)


def trace(shares: Shares, content: Content, share: int) -> Trace:
    """The requests of the rank that has this share of all of the model."""
    return _ReplayedRank(shares, content, share).trace()


def _engine(plan: PytorchPlan, recorder: Recorder) -> EngineRequests:
    match plan.step.data_parallelism.engine:
        case "fsdp1":
            return Fsdp1Requests(plan, recorder)
        case "fsdp2":
            return Fsdp2Requests(plan, recorder)
        case _:
            return DdpRequests(plan, recorder)


class _ReplayedRank(RecordedRank):
    def __init__(self, shares: Shares, content: Content, share: int) -> None:
        super().__init__(shares, content)
        self._root, self._runs = units_of(self._ledger, shares, content, self._placed, share)
        self._units = [self._root, *[run.parameters for run in self._runs]]
        self._engine = _engine(self._plan, self._recorder)
        copied = leaves_root_whole(self._plan)
        self._copy = Fsdp1Requests(self._plan, self._recorder, " of a copy") if copied else None
        """Of a reference model that is shared out by itself."""
        places = enumerate(self._runs)
        self._unit_of = {index: place for place, run in places for index in run.stretches}
        self._here: list[dict[Tensor, HeldTensor]] = []
        self._kept: list[HeldTensor] = []

    def _load(self) -> None:
        """What loading takes for a moment is no part of a step's highest."""
        self._engine.load(self._units)
        if self._copy is not None:
            self._copy.load(self._units)
        else:
            self._load_copy()
        self._recorder.forget_peak()

    def _step(self, *, first: bool) -> None:
        """Micro-batches behind the second are as that one is."""
        number = "first" if first else "later"
        if first:
            self._engine.prepare(self._units)
            if self._copy is not None:
                self._copy.prepare(self._units)
        count = min(2, self._plan.batch.num_microbatches)
        for microbatch in range(count):
            self._engine.begin(is_first=microbatch == 0, is_last=microbatch == count - 1)
            self._micro_batch(number, begins=first and microbatch == 0)
        self._recorder.moment = f"{number} optimizer_step"
        self._optimizer(first=first)
        self._engine.end_step()

    def _micro_batch(self, number: str, *, begins: bool) -> None:
        """Forward and backward; workspaces are made where the run `begins`."""
        self._here = [{} for _ in self._placed]
        self._engine.before_forward(ROOT, self._root)
        stream: HeldTensor | None = None
        for place, run in enumerate(self._runs):
            self._recorder.moment = f"{number} all_gather {place}"
            self._engine.before_forward(place, run.parameters)
            for index in run.stretches:
                if begins and index == 1:
                    self._recorder.make(self._workspace)
                stream = self._forward(index, stream, number)
            if not self._stays(place):
                self._engine.after_forward(place)
        self._engine.end_forward()
        if begins:
            self._recorder.make(self._workspace)
        gradient: HeldTensor | None = None
        root: list[HeldTensor] = []
        for place in reversed(range(len(self._runs))):
            gradient, made = self._unit_backward(place, gradient, number)
            root[:0] = made
        if gradient is not None:
            self._recorder.release(gradient)
        self._recorder.moment = f"{number} end_of_backward"
        self._engine.after_backward(ROOT, self._root, root)
        self._engine.end_backward()
        self._recorder.release(*self._kept)
        self._kept.clear()

    def _unit_backward(
        self, place: int, gradient: HeldTensor | None, number: str
    ) -> tuple[HeldTensor | None, list[HeldTensor]]:
        """A unit's stretches backward. Answers the gradient of the residual stream before it, and
        the gradients that are left to the root.
        """
        run, made = self._runs[place], list[HeldTensor]()
        for index in reversed(run.stretches):
            if index == run.stretches[-1]:
                steps = self._prepare, self._loss_backward
                for step in reversed(steps) if is_loss_outside(self._plan) else steps:
                    step(place, number)
            gradient, leaves = self._backward(place, index, gradient, number)
            made[:0] = leaves
        if not run.parameters.unit.weights:
            return gradient, made
        self._recorder.moment = f"{number} reduce_scatter {place}"
        self._engine.after_backward(place, run.parameters, made)
        return gradient, []

    def _prepare(self, place: int, number: str) -> None:
        """A unit is whole before its backward, and the one before it is gathered meanwhile."""
        self._recorder.moment = f"{number} all_gather {place}"
        parameters = self._runs[place].parameters
        self._engine.before_backward(place, parameters)
        is_root = place == len(self._runs) - 1
        if place and (parameters.unit.weights or is_root):
            self._engine.prefetch(place - 1, self._runs[place - 1].parameters)

    def _passes_of(self, placed: PlacedGroups) -> StretchPasses:
        """The passes of a stretch in this micro-batch."""
        return self._passes.of(placed, passing=self._engine.takes_each)

    def _stays(self, place: int) -> bool:
        """Whether a unit is left whole behind its forward: that of the head always is."""
        if not self._plan.step.data_parallelism.reshard_after_forward:
            return True
        last = len(self._runs) - 1
        return place == last or (place == last - 1 and leaves_last_layer_whole(self._plan))

    def _forward(self, index: int, stream: HeldTensor | None, number: str) -> HeldTensor | None:
        placed, here = self._placed[index], self._here[index]
        if placed.name == "head" and is_loss_outside(self._plan):
            self._engine.end_forward()
        self._recorder.moment = f"{number} {placed.name}_forward {placed.layer}"
        passes = self._passes_of(placed)
        if passes.read is not None and stream is not None:
            here[passes.read] = stream
        self._recorder.run(passes.forward, here)
        if placed.name == "head":
            self._behind_autocast([*map(self._passes_of, self._placed)], self._here, number)
        return here.pop(passes.made) if passes.made is not None else None

    def _backward(
        self, place: int, index: int, gradient: HeldTensor | None, number: str
    ) -> tuple[HeldTensor | None, list[HeldTensor]]:
        """The gradient of the residual stream before a stretch, and those that it leaves."""
        placed, own = self._placed[index], self._here[index]
        self._recorder.moment = f"{number} {placed.name}_backward {placed.layer}"
        if not placed.runs_backward:
            self._recorder.release(*own.values())
            return gradient, []
        passes = self._passes_of(placed)
        if passes.of_made is not None and gradient is not None:
            own[passes.of_made] = gradient
        if passes.again is not NOTHING:
            self._recorder.run(passes.again, own)
            self._engine.after_again(place, self._runs[place].parameters)
        self._recorder.run(passes.backward, own)
        self._keep(place, passes, own)
        before = own.pop(passes.of_read, None) if passes.of_read is not None else None
        return before, [own[each] for each in left(placed.groups) if each in own]

    def _keep(self, place: int, passes: StretchPasses, own: dict[Tensor, HeldTensor]) -> None:
        """Take over what a layer's backward leaves of its input, and of the gradient that it was
        given where that is of the next layer's input.
        """
        if passes.read is not None and passes.read in own:
            self._kept.append(own.pop(passes.read))
        if passes.of_made is not None and passes.of_made in own:
            held = own.pop(passes.of_made)
            if self._runs[place + 1].is_layer:
                self._kept.append(held)
            else:
                self._recorder.release(held)

    def _loss_backward(self, place: int, number: str) -> None:
        """The loss runs backward before the head's unit is asked for, unless the root's forward
        computes it.
        """
        index = self._runs[place].stretches[-1]
        placed = self._placed[index]
        self._recorder.moment = f"{number} {placed.name}_backward {placed.layer}"
        self._recorder.run(self._passes_of(placed).loss, self._here[index])

    @contextmanager
    def _gathered_for_reference(self, index: int) -> Iterator[None]:
        """While a reference runs this stretch: of its own weights, or of the policy's. Its root is
        whole, and stays so.
        """
        engine = self._copy or self._engine
        place = self._unit_of[index]
        engine.before_forward(ROOT, self._root)
        engine.before_forward(place, self._runs[place].parameters)
        yield
        engine.after_forward(place)

    def _embedding_share(self) -> int:
        """Under tensor parallelism alone the embedding's gradient is a part of a whole one, and
        copied for the step.
        """
        plan, layout = self._plan, self._plan.layout
        if layout.tp == 1 or not layout.divides_embedding or layout.sharding != "no_shard":
            return 0
        matrix = plan.vocabulary_rows * plan.model.hidden_size
        return plan.step.states.gradients * (matrix // layout.tp)

    def _stepped(self) -> list[int]:
        """Elements of each share of a parameter, in the order of the model's modules: of those of
        the root the embedding stands before the layers, and the others behind them.
        """
        root, *units = [each.stepped for each in self._units]
        return [*filter(None, chain(root[:1], *units, root[1:]))]

    def _optimizer(self, *, first: bool) -> None:
        """States of each share of a parameter at the first step, and what a step borrows."""
        optimizer, states = self._plan.step.optimizer, self._plan.step.states
        elements = self._stepped()
        if first:
            self._make_states(elements)
        if share := self._embedding_share():
            self._recorder.release(self._recorder.make(share))
        made = OPTIMIZERS[optimizer.name].temporaries.get(optimizer.implementation)
        if made is not None:
            width = ceil(states.moments / 2)
            self._borrow(elements, width, made.tensors, at_once=made.of == "all")
