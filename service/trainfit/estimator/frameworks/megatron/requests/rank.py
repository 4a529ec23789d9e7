"""The requests of a pipeline rank's forwards and backwards, in a first step and a later one.

Source: megatron/core/pipeline_parallel/schedules.py.
"""

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from typing import Literal, NamedTuple

from trainfit.estimator.frameworks.megatron.chunks import MegatronLedger
from trainfit.estimator.frameworks.megatron.requests.passes import (
    MegatronStretch,
    ModelStretches,
    Shape,
)
from trainfit.estimator.peak import chunk_activations
from trainfit.estimator.placement import Content
from trainfit.estimator.schedule import Turn, chunk_of, microbatch_of, order_of, warm_up
from trainfit.estimator.tensors import Tensor
from trainfit.estimator.trace.recorder import Graphs, HeldTensor, Recorder, TracePart
from trainfit.resolve.megatron.plan import MegatronPlan

Key = tuple[int, int]
"""A chunk, and a micro-batch."""


UnitKind = Literal["embedding", "layer", "final_norm", "mtp", "head"]
BEFORE_HEADS: tuple[UnitKind, ...] = ("mtp", "final_norm")
"""Units whose gradient a head makes."""


class Standing(NamedTuple):
    """Bytes that stay once they were used, beside dummies of gradients: where layers run, where
    the head runs, and of cuBLAS for either direction, by which the head multiplies, or
    `everywhere`; of the copies of its weights that a kind of layer, or a multi-token prediction,
    keeps. Of what is `deferred` where the head runs, as much as there is at most is taken to be
    there throughout a step.
    """

    layers: tuple[int, ...]
    head: tuple[int, ...]
    cublas: int
    copies: Callable[[int | None], tuple[int, ...]]
    deferred: tuple[int, ...]
    everywhere: bool


class StepRequests(NamedTuple):
    """What a `first` step asks for and a `later` one, without the optimizer: the bytes that are
    there before the later one, the most that are there in it, and when; and what CUDA graphs do.
    Where these are captured in the first step, `first_peak_bytes` are the most that are there then.
    """

    first: TracePart
    later: TracePart
    before: int
    peak_bytes: int
    peak_moment: str
    tensors: Mapping[Hashable, Tensor]
    graphs: Graphs | None = None
    first_peak_bytes: int = 0


class RunUnit(NamedTuple):
    """Stretches that run as one, with kinds of `layers`. Layers that run `again` in backward keep
    what the first reads.
    """

    kind: UnitKind
    stretches: tuple[MegatronStretch, ...]
    again: bool = False
    layers: tuple[int | None, ...] = ()


class UnitInFlight(NamedTuple):
    """A unit of a micro-batch, with the tensors of it that are there."""

    unit: RunUnit
    here: dict[Tensor, HeldTensor]


class RankRequests:
    """The forwards and backwards of a pipeline rank that holds chunks of such contents."""

    def __init__(
        self,
        plan: MegatronPlan,
        ledger: MegatronLedger,
        stretches: ModelStretches,
        number: int,
        contents: Sequence[Content],
        standing: Standing,
        layer: Callable[[int], MegatronStretch] | None = None,
    ) -> None:
        """`layer` is the stretch of the next layer of a kind, unless all of a kind are alike."""
        self._plan, self._ledger, self._stretches = plan, ledger, stretches
        self._number, self._contents, self._standing = number, contents, standing
        self._layer = layer or stretches.layer
        pipeline, m = plan.layout.pipeline, plan.batch.num_microbatches
        self._forwards = m * pipeline.vpp
        self._ahead = min(warm_up(pipeline, m, number), self._forwards - 1)
        self._shown = self._highest_turn()
        self._recorder = Recorder()
        self._dummies: set[Shape] = set()
        self._once: set[str] = set()
        self._running: dict[Key, list[UnitInFlight]] = {}
        self._waiting: dict[Key, list[HeldTensor]] = {}
        self._received: HeldTensor | None = None
        self._sent: HeldTensor | None = None

    def steps(self, later: int = 1) -> StepRequests:
        """What a first step asks for, and so many later ones."""
        recorder = self._recorder
        self._step("first")
        first = recorder.cut()
        before = recorder.bytes
        recorder.forget_peak()
        for _ in range(later):
            self._step("later")
        highest = recorder.peak_bytes, recorder.peak_moment
        return StepRequests(first, recorder.cut(), before, *highest, recorder.tensors)

    def _step(self, step: str) -> None:
        """Forwards ahead, then one forward and one backward in turn: in the first step once, in a
        later one until all is there at once that ever is. Whatever is there then goes, as it does
        one by one to the step's end; only what no backward came through yet has to run.
        """
        heads = any(content.output_layer for content in self._contents)
        waiting = [self._recorder.make(each) for each in self._standing.deferred * heads]
        self._alternate(1 if step == "first" else self._shown, step)
        for key in tuple(self._running):
            if self._is_new(key):
                self._run_backward(key, step)
            else:
                self._drop(key)
        for held in (*waiting, self._received, self._sent):
            if held is not None:
                self._recorder.release(held)
        self._received = self._sent = None

    def _alternate(self, shown: int, step: str) -> None:
        for key, is_forward in self._order(shown):
            if is_forward:
                self._run_forward(key, step)
            else:
                self._run_backward(key, step)

    def _order(self, shown: int) -> Iterator[tuple[Key, bool]]:
        """Forwards ahead, and up to so many in turn with backwards; which of both each is."""
        pipeline, ahead = self._plan.layout.pipeline, self._ahead
        for index in range(min(ahead + shown, self._forwards)):
            yield (chunk_of(index, pipeline), microbatch_of(index, pipeline)), True
            back = index - ahead
            if back >= 0:
                number = pipeline.vpp - 1 - chunk_of(back, pipeline)
                yield (number, microbatch_of(back, pipeline)), False

    def _highest_turn(self) -> int:
        """Turns of one forward and one backward up to the highest of a cycle."""
        pipeline, m = self._plan.layout.pipeline, self._plan.batch.num_microbatches
        chunks = [chunk_activations(self._ledger, each) for each in self._contents]
        act = self._ledger.sizes.act

        def height(turn: Turn) -> int:
            forward, backward = chunks[turn.forward], chunks[turn.backward]
            before = forward.forward.total + act * turn.received
            after = forward.saved - backward.saved + backward.backward.total
            return turn.live + act * turn.sent + max(before, after)

        order = order_of(pipeline, m, self._number)
        found = order.turns([chunk.saved for chunk in chunks])
        alone = pipeline.pp == 1
        return max(2 - alone, max(found, key=height).ordinal - self._ahead + 1)

    def _is_new(self, key: Key) -> bool:
        """Whether dummies of gradients are still to be made by a backward."""
        return any(
            self._stretches.shapes(stretch) - self._dummies
            for unit, _ in self._running[key]
            for stretch in unit.stretches
        )

    def _drop(self, key: Key) -> None:
        """What a micro-batch has kept in a chunk goes."""
        for _, here in self._running.pop(key):
            self._recorder.release(*here.values())
        self._recorder.release(*self._waiting.pop(key, ()))

    def _run_forward(self, key: Key, step: str) -> None:
        number, _ = key
        content = self._contents[number]
        stream = None if content.embedding else self._receive(key)
        data = self._ledger.batch_bytes(content)
        mask = self._recorder.make(data) if data else None
        running = self._running[key] = []
        for place, unit in enumerate(self._units(content)):
            self._recorder.moment = f"{step} {unit.kind}_forward {number}"
            self._before(unit, f"copies {number} {place}")
            here, stream = self._unit_forward(unit, stream)
            running.append(UnitInFlight(unit, here))
        if mask is not None:
            self._recorder.release(mask)
        if stream is not None:
            if self._plan.framework.deallocate_pipeline_outputs:
                self._recorder.release(stream)
            else:
                self._waiting.setdefault(key, []).append(stream)

    def _receive(self, key: Key) -> HeldTensor | None:  # noqa: ARG002
        """What the stage before has sent of a micro-batch to a chunk, for its first unit."""
        return self._recorder.make(self._ledger.sizes.act)

    def _run_backward(self, key: Key, step: str) -> None:
        number, _ = key
        content = self._contents[number]
        recorder = self._recorder
        received = None if content.output_layer else recorder.make(self._ledger.sizes.act)
        gradient, before, self._received = received, self._received, received
        if before is not None:
            recorder.release(before)
        waiting: list[HeldTensor] = []
        for unit, here in reversed(self._running.pop(key)):
            recorder.moment = f"{step} {unit.kind}_backward {number}"
            if unit.kind == "head" or self._standing.everywhere:
                self._stand("cublas backward", self._standing.cublas)
            if unit.kind in BEFORE_HEADS and waiting:
                gradient = waiting.pop()
            gradient = self._unit_backward(unit, here, gradient, received)
            if unit.kind == "head" and gradient is not None:
                waiting.insert(1, gradient)  # That of the main prediction is used last.
        gradient = self._passed_on(waiting, gradient)
        recorder.release(*self._waiting.pop(key, ()))
        # A chunk of nothing sends what it received.
        sent, self._sent = self._sent, None if gradient is received else gradient
        if sent is not None:
            recorder.release(sent)

    def _unit_forward(
        self, unit: RunUnit, stream: HeldTensor | None
    ) -> tuple[dict[Tensor, HeldTensor], HeldTensor | None]:
        """What a unit keeps, and the residual stream behind it."""
        kept: dict[Tensor, HeldTensor] = {}
        for stretch in unit.stretches:
            here = self._read(stretch, stream)
            first = stretch is unit.stretches[0] and not kept
            if unit.again:
                self._recorder.run(self._stretches.dropping(stretch, first), here)
            else:
                self._recorder.run(self._stretches.forward(stretch), here)
            stream = None if stretch.made is None else here.pop(stretch.made)
            kept.update(here)
        return kept, stream

    def _read(
        self, stretch: MegatronStretch, stream: HeldTensor | None
    ) -> dict[Tensor, HeldTensor]:
        """The residual stream as a stretch reads it: what a multi-token prediction keeps of it
        stands for it.
        """
        if stream is None:
            return {}
        if stretch.read is None:
            self._recorder.release(stream)
            return {}
        return {stretch.read: stream}

    @staticmethod
    def _passed_on(waiting: Sequence[HeldTensor], gradient: HeldTensor | None) -> HeldTensor | None:
        """What a chunk sends: where no final norm stands before its heads, their gradient."""
        return waiting[0] if waiting else gradient

    def _unit_backward(
        self,
        unit: RunUnit,
        here: dict[Tensor, HeldTensor],
        gradient: HeldTensor | None,
        received: HeldTensor | None,
    ) -> HeldTensor | None:
        """The gradient before a unit. What runs again holds the gradient that it was given, and
        what it made, until all of it is through.
        """
        heres, output = [here] * len(unit.stretches), None
        if unit.again:
            heres, output = self._run_again(unit, here)
        given = gradient
        for stretch, own in zip(reversed(unit.stretches), reversed(heres), strict=True):
            held = gradient is not None and gradient is (given if unit.again else received)
            if stretch.of_made is not None and gradient is not None:
                own[stretch.of_made] = gradient
            new = self._stretches.shapes(stretch) - self._dummies
            self._dummies |= new
            self._recorder.run(self._stretches.backward(stretch, new, held), own)
            of_read = self._stretches.of_read(stretch, held=held)
            gradient = None if of_read is None else own.get(of_read)
        if output is not None:
            self._recorder.release(output)
        if unit.again and given is not None and given is not received:
            self._recorder.release(given)
        return gradient

    def _run_again(
        self, unit: RunUnit, here: dict[Tensor, HeldTensor]
    ) -> tuple[list[dict[Tensor, HeldTensor]], HeldTensor | None]:
        """Forward with all that backward needs, from the inputs of the first stretch."""
        heres, stream = list[dict[Tensor, HeldTensor]](), None
        for stretch in unit.stretches:
            own = {}
            if stream is None:
                own.update(here)
            elif stretch.read is not None:
                own[stretch.read] = stream
            self._recorder.run(self._stretches.again(stretch), own)
            stream = None if stretch.made is None else own.pop(stretch.made)
            heres.append(own)
        return heres, stream

    def _units(self, content: Content) -> Iterator[RunUnit]:
        """The units of a chunk in forward order."""
        stretches, policy = self._stretches, self._plan.step.recompute
        if content.embedding:
            yield RunUnit("embedding", (stretches.embedding,))
        layers = list(map(self._layer, content.kinds))
        size = policy.num_layers if policy.full == "uniform" else 1
        for first in range(0, len(layers), size):
            again = bool(layers) and self._ledger.is_recomputed(first, content.kinds[first])
            kinds = content.kinds[first : first + size]
            yield RunUnit("layer", tuple(layers[first : first + size]), again, kinds)
        if content.final_norm:
            yield RunUnit("final_norm", (stretches.final_norm,))
        for _ in range(content.mtp_layers):
            yield RunUnit("mtp", stretches.depth, self._ledger.recomputes_mtp, (None,))
        if content.output_layer:
            for _ in range(1 + self._plan.mtp_layers):
                yield RunUnit("head", (stretches.head,))

    def _before(self, unit: RunUnit, copies: str) -> None:
        """What is there from the first layer or head that runs on, and the `copies` that this one
        keeps of its weights.
        """
        if unit.layers:
            self._stand("layers", *self._standing.layers)
            for kind in unit.layers if copies not in self._once else ():
                for nbytes in self._standing.copies(kind):
                    self._recorder.make(nbytes)
            self._once.add(copies)
        elif unit.kind == "head":
            self._stand("head", *self._standing.head)
        if unit.kind == "head" or (unit.layers and self._standing.everywhere):
            self._stand("cublas", self._standing.cublas)

    def _stand(self, name: str, *sizes: int) -> None:
        if name not in self._once:
            self._once.add(name)
            for nbytes in sizes:
                if nbytes:
                    self._recorder.make(nbytes)
