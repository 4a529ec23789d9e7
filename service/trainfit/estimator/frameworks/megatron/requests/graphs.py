"""What a rank asks for with CUDA graphs.

Steps are as without graphs until these are captured, from an empty cache, into a pool of their own,
which keeps what was there at once. One graph is of all forwards and backwards of a step; or
TransformerEngine captures parts of every layer, for every micro-batch in flight: then copies of
what these read, and of the gradients that come to them, stay beside the pool, and what is not
captured runs on as before, with the tensors that no graph makes. Sources:
megatron/core/full_cuda_graph.py, megatron/core/transformer/cuda_graphs.py (TECudaGraphHelper),
TransformerEngine's graph.py (_make_graphed_callables), torch/cuda/graphs.py (graph).
"""

from collections import Counter
from collections.abc import Iterable, Set
from functools import cache
from typing import NamedTuple

from trainfit.estimator.frameworks.megatron.graphed import captures_at_once
from trainfit.estimator.frameworks.megatron.requests.passes import MegatronStretch, ModelStretches
from trainfit.estimator.frameworks.megatron.requests.rank import (
    Key,
    RankRequests,
    RunUnit,
    StepRequests,
)
from trainfit.estimator.tensors import Tensor
from trainfit.estimator.trace.moments import Moment, turns
from trainfit.estimator.trace.recorder import Graphs, HeldTensor, Passage, TracePart, lasting

POOL = "graphs"
"""The private pool that all graphs of a rank share."""
STEP = "graphs"
"""What the moments of a step with graphs are of."""
CAPTURE = f"{STEP} capture"

MarkedMoments = list[tuple[Moment, bool]]
"""Moments, and whether a graph has them."""


class Captured(NamedTuple):
    """What graphs have of a stretch: copies of the `inputs` that they read, the `outputs` that
    others read, and what comes and goes while they are captured, of which `handed` is the gradient
    that they hand on.
    """

    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]
    forward: Passage
    backward: Passage
    handed: Tensor | None


class Divided:
    """Stretches as TransformerEngine's graphs divide them."""

    def __init__(self, stretches: ModelStretches) -> None:
        self._sum = cache(lambda _stretch, _number: stretches.gradient())
        """The gradient of the residual stream behind so many additions."""
        self._within = cache(_within)
        """What graphs make forward."""
        self.captured = cache(self._captured)
        self.forward = cache(self._forward)
        """What comes and goes beside graphs; what a stretch reads may be `given` there."""
        self.backward = cache(self._backward)
        """The same backward, with what is `read` then, and the gradient that is given, which
        others may hold.
        """

    def of_read(self, stretch: MegatronStretch, *, held: bool) -> Tensor | None:
        """The gradient before a stretch."""
        return self._marked_backward(stretch, held)[1]

    def _captured(self, stretch: MegatronStretch) -> Captured:
        marked, within = _marked_forward(stretch), self._within(stretch)
        inside = [moment for moment, captured in marked if captured]
        beside = frozenset([each for moment, captured in marked if not captured for each in moment])
        read = [each for moment in inside for each in moment if each not in within]
        inputs = dict.fromkeys((*read, *_some(stretch.mask)))
        last = within & {stretch.made}
        outputs = tuple([each for each in within if each in beside or each in last])
        kept = (stretch.kept & within).union(outputs)
        forward = turns([_only(moment, within) for moment in inside], (), kept)
        back, of_read = self._marked_backward(stretch, held=True)
        made = kept | _made(back, _known(stretch), captured=True)
        moments = [_only(moment, made) for moment, captured in back if captured]
        handed = tuple([each for each in (of_read,) if each in made and each is not None])
        backward = turns([*moments, (*outputs, *handed)] if inside else [], kept, handed)
        return Captured(
            tuple(inputs), outputs, Passage(forward), Passage(backward), *handed or (None,)
        )

    def _forward(self, stretch: MegatronStretch, given: bool) -> Passage:
        elsewhere = self._within(stretch) | _some(None if given else stretch.read)
        marked = _marked_forward(stretch)
        allowed = frozenset([each for moment, _ in marked for each in moment]) - elsewhere
        moments = [_only(moment, allowed) for moment, _ in marked]
        kept = (self._kept(stretch) | _some(stretch.made)) & allowed
        return Passage(turns(moments, allowed & _some(stretch.read), kept))

    def _backward(self, stretch: MegatronStretch, read: bool, given: bool, held: bool) -> Passage:
        marked, of_read = self._marked_backward(stretch, held)
        kept = self._kept(stretch) - _some(None if read else stretch.read)
        incoming = _some(stretch.of_made if given else None)
        between = incoming | _made(marked, _known(stretch), captured=False)
        beside = kept | between
        moments = [_only(moment, between if captured else beside) for moment, captured in marked]
        handed = (_some(of_read) & between) | (incoming if held else frozenset())
        return Passage(turns(moments, (*kept, *incoming), handed))

    def _kept(self, stretch: MegatronStretch) -> frozenset[Tensor]:
        """What backward reads beside graphs of what forward made there."""
        back, _ = self._marked_backward(stretch, held=True)
        read = frozenset([each for moment, captured in back if not captured for each in moment])
        return (stretch.kept & read) - self._within(stretch)

    def _marked_backward(
        self, stretch: MegatronStretch, held: bool
    ) -> tuple[MarkedMoments, Tensor | None]:
        """Backward, and the gradient before the stretch. To what others hold, and to what comes
        from beside a graph or goes there, no part adds its own in place.
        """
        marked: MarkedMoments = []
        flow, own, where = stretch.of_made, not held, False
        for number, step in enumerate(stretch.backward):
            before = _some(flow)
            if not step.adds:
                marked.append(((*before, *step.moment), step.captured))
            elif step.captured is not where or not own:
                flow, own, where = self._sum(stretch, number), True, step.captured
                marked.append(((*before, *step.moment, flow), step.captured))
        return marked, flow if stretch.of_read is stretch.of_made else stretch.of_read


class RankWithGraphs(RankRequests):
    """A rank whose steps run as CUDA graphs in the end."""

    _divided: Divided | None = None
    """How stretches are divided, from when graphs of layers are there."""

    def steps(self, later: int = 1) -> StepRequests:
        if captures_at_once(self._ledger.run):
            return self._captured_at_once()
        return super().steps(later)._replace(graphs=self._graphs())

    def _graphs(self) -> Graphs:
        whole = self._plan.framework.cuda_graph_impl == "full_iteration"
        return self._one_graph() if whole else self._graphs_of_layers()

    def _captured_at_once(self) -> StepRequests:
        """No step runs before graphs are captured. What one would leave behind is there when they
        are.
        """
        recorder = self._recorder
        self._step("first")
        standing = lasting(recorder.cut())
        recorder.forget_peak()
        captured, step = self._graphs()
        first, before_moments = TracePart.joined(standing, captured, step), recorder.peak_bytes
        before = recorder.bytes
        recorder.forget_peak()
        if self._divided is not None:
            self._step(STEP)
        highest = recorder.peak_bytes, recorder.peak_moment
        later = recorder.cut()
        return StepRequests(
            first, later, before, *highest, recorder.tensors, first_peak_bytes=before_moments
        )

    def _one_graph(self) -> Graphs:
        """All of a step but the optimizer's. cuBLAS has workspaces of its own on the stream on
        which the graph is captured.
        """
        recorder = self._recorder
        recorder.empty_cache()
        recorder.begin_pool(POOL)
        recorder.moment = CAPTURE
        if any(content.output_layer for content in self._contents):
            self._stand("cublas of the graph", self._standing.cublas, self._standing.cublas)
        self._step(STEP)
        recorder.end_pool(POOL)
        return Graphs(recorder.cut(), TracePart())

    def _graphs_of_layers(self) -> Graphs:
        """Layers run once as they will be captured, outside the pool, before they are."""
        recorder, divided = self._recorder, Divided(self._stretches)
        alone = self._plan.layout.pipeline.pp == 1
        order = list(self._order(1 if alone else self._shown))
        recorder.moment = CAPTURE
        recorder.empty_cache()
        for nbytes in self._inputs(divided, order):
            recorder.make(nbytes)
        self._capture(divided, order)
        recorder.empty_cache()
        for nbytes in self._gradients(divided):
            recorder.make(nbytes)
        recorder.begin_pool(POOL)
        self._capture(divided, order)
        recorder.end_pool(POOL)
        recorder.empty_cache()
        captured, self._divided = recorder.cut(), divided
        self._step(STEP)
        return Graphs(captured, recorder.cut())

    def _layers(self, number: int) -> list[MegatronStretch]:
        units = self._units(self._contents[number])
        return [each for unit in units for each in unit.stretches if each.captured]

    def _inputs(self, divided: Divided, order: Iterable[tuple[Key, bool]]) -> Iterable[int]:
        """Copies of what graphs read: as many of each size as are in flight at most."""
        flying, most = Counter[int](), Counter[int]()
        for (number, _), is_forward in order:
            read = [divided.captured(each).inputs for each in self._layers(number)]
            sizes = Counter([each.bytes for inputs in read for each in inputs])
            if is_forward:
                flying += sizes
                most |= flying
            else:
                flying -= sizes
        return most.elements()

    def _gradients(self, divided: Divided) -> list[int]:
        """Copies of the gradients of what graphs make: one set for layers that are alike."""
        layers = [each for number in range(len(self._contents)) for each in self._layers(number)]
        made = [divided.captured(each).outputs for each in layers]
        alike = {tuple(sorted([each.bytes for each in outputs])) for outputs in made}
        return [nbytes for sizes in sorted(alike) for nbytes in sizes]

    def _capture(self, divided: Divided, order: Iterable[tuple[Key, bool]]) -> None:
        """What is captured of forwards and backwards. The gradient that a graph hands on is there
        until the next one has read it.
        """
        recorder, running = (
            self._recorder,
            dict[Key, list[tuple[Captured, dict[Tensor, HeldTensor]]]](),
        )
        handed: list[HeldTensor] = []
        for key, is_forward in order:
            if is_forward:
                running[key] = [(divided.captured(each), {}) for each in self._layers(key[0])]
                for layer, here in running[key]:
                    recorder.run(layer.forward, here)
                continue
            for layer, here in reversed(running.pop(key)):
                recorder.run(layer.backward, here)
                recorder.release(*handed)
                handed = [here.pop(layer.handed)] if layer.handed is not None else []
        recorder.release(*handed)
        for layers in running.values():
            for _, here in layers:
                recorder.release(*here.values())

    def _receive(self, key: Key) -> HeldTensor | None:
        """Schedules hold it, of which layers read a copy, until the backward."""
        received = super()._receive(key)
        if self._divided is None or received is None:
            return received
        self._waiting.setdefault(key, []).append(received)
        return None

    def _unit_forward(
        self, unit: RunUnit, stream: HeldTensor | None
    ) -> tuple[dict[Tensor, HeldTensor], HeldTensor | None]:
        if self._divided is None:
            return super()._unit_forward(unit, stream)
        kept: dict[Tensor, HeldTensor] = {}
        for stretch in unit.stretches:
            here = {} if stretch.read is None or stream is None else {stretch.read: stream}
            self._recorder.run(self._divided.forward(stretch, bool(here)), here)
            stream = None if stretch.made is None else here.pop(stretch.made, None)
            kept.update(here)
        return kept, stream

    def _unit_backward(
        self,
        unit: RunUnit,
        here: dict[Tensor, HeldTensor],
        gradient: HeldTensor | None,
        received: HeldTensor | None,
    ) -> HeldTensor | None:
        """A gradient that is not there is in the pool of the graphs."""
        if self._divided is None:
            return super()._unit_backward(unit, here, gradient, received)
        for stretch in reversed(unit.stretches):
            given = stretch.of_made is not None and gradient is not None
            held = gradient is None or gradient is received
            if stretch.of_made is not None and gradient is not None:
                here[stretch.of_made] = gradient
            run = self._divided.backward(stretch, stretch.read in here, given, held)
            self._recorder.run(run, here)
            of_read = self._divided.of_read(stretch, held=held)
            gradient = None if of_read is None else here.get(of_read)
        return gradient


def _marked_forward(stretch: MegatronStretch) -> MarkedMoments:
    return [(each, number in stretch.captured) for number, each in enumerate(stretch.forward)]


def _within(stretch: MegatronStretch) -> frozenset[Tensor]:
    return _made(_marked_forward(stretch), _some(stretch.read), captured=True)


def _known(stretch: MegatronStretch) -> frozenset[Tensor]:
    """What is there before a backward, or came in its forward."""
    named = [each for moment in stretch.forward for each in moment]
    return stretch.kept.union(named, _some(stretch.of_made))


def _made(marked: MarkedMoments, known: Set[Tensor], *, captured: bool) -> frozenset[Tensor]:
    """What comes in moments that graphs have, or in others, beside what is known before."""
    where: dict[Tensor, bool] = {}
    for moment, graphed in marked:
        for each in moment:
            where.setdefault(each, graphed)
    return frozenset([each for each, at in where.items() if at is captured and each not in known])


def _only(moment: Moment, allowed: Set[Tensor]) -> Moment:
    return tuple([each for each in moment if each in allowed])


def _some(tensor: Tensor | None) -> frozenset[Tensor]:
    return frozenset() if tensor is None else frozenset([tensor])
