"""The requests of a pipeline rank's forwards and backwards, in a first step and a later one.

Source: megatron/core/pipeline_parallel/schedules.py.
"""

from collections.abc import Hashable, Iterator, Mapping, Sequence
from typing import NamedTuple

from trainfit.estimator.frameworks.megatron.chunks import MegatronLedger
from trainfit.estimator.frameworks.megatron.requests.passes import Shape, Stretch, Stretches
from trainfit.estimator.peak import chunk_activations
from trainfit.estimator.placement import Content
from trainfit.estimator.schedule import Turn, chunk_of, microbatch_of, turns, warm_up
from trainfit.estimator.tensors import Tensor
from trainfit.estimator.trace.recorder import Held, Part, Recorder
from trainfit.resolve.megatron.plan import MegatronPlan

Key = tuple[int, int]
"""A chunk, and a micro-batch."""


class Standing(NamedTuple):
    """Bytes that stay once they were used, beside dummies of gradients: where layers run, where
    the head runs, and of cuBLAS for either direction.
    """

    layers: tuple[int, ...]
    head: tuple[int, ...]
    cublas: int


class Steps(NamedTuple):
    """What a `first` step asks for and a `later` one, without the optimizer: the bytes that are
    there before the later one, the most that are there in it, and when.
    """

    first: Part
    later: Part
    before: int
    peak_bytes: int
    peak_moment: str
    tensors: Mapping[Hashable, Tensor]


class Running(NamedTuple):
    """A stretch of a micro-batch, with the tensors of it that are there."""

    stretch: Stretch
    here: dict[Tensor, Held]


class Rank:
    """The forwards and backwards of a pipeline rank that holds chunks of such contents."""

    def __init__(
        self,
        plan: MegatronPlan,
        ledger: MegatronLedger,
        stretches: Stretches,
        number: int,
        contents: Sequence[Content],
        standing: Standing,
    ) -> None:
        self._plan, self._ledger, self._stretches = plan, ledger, stretches
        self._number, self._contents, self._standing = number, contents, standing
        pipeline, m = plan.layout.pipeline, plan.batch.num_microbatches
        self._forwards = m * pipeline.vpp
        self._ahead = min(warm_up(pipeline, m, number), self._forwards - 1)
        self._shown = self._highest_turn()
        self._recorder = Recorder()
        self._dummies: set[Shape] = set()
        self._once: set[str] = set()
        self._running: dict[Key, list[Running]] = {}
        self._outputs: dict[Key, Held] = {}
        self._received: Held | None = None
        self._sent: Held | None = None

    def steps(self) -> Steps:
        """What a first step asks for, and a later one."""
        recorder = self._recorder
        self._step("first")
        first = recorder.cut()
        before = recorder.bytes
        recorder.forget_peak()
        self._step("later")
        highest = recorder.peak_bytes, recorder.peak_moment
        return Steps(first, recorder.cut(), before, *highest, recorder.tensors)

    def _step(self, step: str) -> None:
        """Forwards ahead, then one forward and one backward in turn: in the first step once, in a
        later one until all is there at once that ever is. Whatever is there then goes, as it does
        one by one to the step's end; only what no backward came through yet has to run.
        """
        ahead, shown = self._ahead, 1 if step == "first" else self._shown
        for index in range(ahead):
            self._forward(index, step)
        for index in range(ahead, min(ahead + shown, self._forwards)):
            self._forward(index, step)
            self._backward(index - ahead, step)
        for key in tuple(self._running):
            if self._is_new(key):
                self._run_backward(key, step)
            else:
                self._drop(key)
        for held in (self._received, self._sent):
            if held is not None:
                self._recorder.release(held)
        self._received = self._sent = None

    def _highest_turn(self) -> int:
        """Turns of one forward and one backward up to the highest of a cycle."""
        pipeline, m = self._plan.layout.pipeline, self._plan.batch.num_microbatches
        chunks = [chunk_activations(self._ledger, each) for each in self._contents]

        def height(turn: Turn) -> int:
            forward, backward = chunks[turn.forward], chunks[turn.backward]
            after = forward.saved - backward.saved + backward.backward.total
            return turn.live + max(forward.forward.total, after)

        found = turns(pipeline, m, self._number, [chunk.saved for chunk in chunks])
        alone = pipeline.pp == 1
        return max(2 - alone, max(found, key=height).ordinal - self._ahead + 1)

    def _is_new(self, key: Key) -> bool:
        """Whether dummies of gradients are still to be made by a backward."""
        return any(
            self._stretches.shapes(each.stretch) - self._dummies for each in self._running[key]
        )

    def _drop(self, key: Key) -> None:
        """What a micro-batch has kept in a chunk goes."""
        for _, here in self._running.pop(key):
            self._recorder.release(*here.values())
        if key in self._outputs:
            self._recorder.release(self._outputs.pop(key))

    def _forward(self, index: int, step: str) -> None:
        pipeline = self._plan.layout.pipeline
        number = chunk_of(index, pipeline)
        key = number, microbatch_of(index, pipeline)
        content = self._contents[number]
        stream = None if content.embedding else self._recorder.make(self._ledger.sizes.act)
        data = self._ledger.batch_bytes(content)
        mask = self._recorder.make(data) if data else None
        running = self._running[key] = []
        for name, stretch in self._of(content):
            self._recorder.moment = f"{step} {name}_forward {number}"
            self._before(name)
            here: dict[Tensor, Held] = {}
            if stretch.read is not None and stream is not None:
                here[stretch.read] = stream
                stream = None
            self._recorder.run(self._stretches.forward(stretch), here)
            if stretch.made is not None:
                stream = here.pop(stretch.made)
            running.append(Running(stretch, here))
        if mask is not None:
            self._recorder.release(mask)
        if stream is not None:
            if self._plan.framework.deallocate_pipeline_outputs:
                self._recorder.release(stream)
            else:
                self._outputs[key] = stream

    def _backward(self, index: int, step: str) -> None:
        pipeline = self._plan.layout.pipeline
        number = pipeline.vpp - 1 - chunk_of(index, pipeline)
        self._run_backward((number, microbatch_of(index, pipeline)), step)

    def _run_backward(self, key: Key, step: str) -> None:
        number, _ = key
        content, stretches = self._contents[number], self._stretches
        recorder = self._recorder
        received = None if content.output_layer else recorder.make(self._ledger.sizes.act)
        gradient, before, self._received = received, self._received, received
        if before is not None:
            recorder.release(before)
        for stretch, here in reversed(self._running.pop(key)):
            recorder.moment = f"{step} backward {number}"
            held = gradient is not None and gradient is received
            if stretch is stretches.head:
                self._stand("cublas backward", self._standing.cublas)
            if stretch.of_made is not None and gradient is not None:
                here[stretch.of_made] = gradient
            new = stretches.shapes(stretch) - self._dummies
            self._dummies |= new
            recorder.run(stretches.backward(stretch, new, held), here)
            of_read = stretches.of_read(stretch, held=held)
            gradient = None if of_read is None else here.get(of_read)
        if key in self._outputs:
            recorder.release(self._outputs.pop(key))
        sent, self._sent = self._sent, gradient
        if sent is not None:
            recorder.release(sent)

    def _of(self, content: Content) -> Iterator[tuple[str, Stretch]]:
        """The stretches of a chunk in forward order."""
        stretches = self._stretches
        if content.embedding:
            yield "embedding", stretches.embedding
        for kind in content.kinds:
            yield "layer", stretches.layer(kind)
        if content.final_norm:
            yield "final_norm", stretches.final_norm
        if content.output_layer:
            yield "head", stretches.head

    def _before(self, name: str) -> None:
        """What is there from the first layer or head that runs on."""
        if name == "layer":
            self._stand("layers", *self._standing.layers)
        elif name == "head":
            self._stand("head", *self._standing.head, self._standing.cublas)

    def _stand(self, name: str, *sizes: int) -> None:
        if name not in self._once:
            self._once.add(name)
            for nbytes in sizes:
                if nbytes:
                    self._recorder.make(nbytes)
