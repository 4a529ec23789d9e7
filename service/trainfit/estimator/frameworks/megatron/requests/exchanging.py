"""The requests of a rank whose exchanges of tokens run beside another micro-batch's computation.

The nodes of a forward and of a backward run in turn. What nodes make that exchange is on a stream
of its own, and so is what backward makes there; what they no longer need is taken to be free at
once. Sources: megatron/core/models/common/model_chunk_schedule_plan.py (run),
megatron/core/pipeline_parallel/combined_1f1b.py and utils.py (ScheduleNode).
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import zip_longest
from typing import TypeVar

from trainfit.estimator.frameworks.megatron.combined import Combined, in_turn
from trainfit.estimator.frameworks.megatron.nodes import Node, Nodes, nodes_of
from trainfit.estimator.frameworks.megatron.requests.graphs import RankWithGraphs
from trainfit.estimator.frameworks.megatron.requests.passes import (
    BackwardMoment,
    MegatronStretch,
    ModelStretches,
    NodeStretches,
    block_input,
    reversed_steps,
)
from trainfit.estimator.frameworks.megatron.requests.rank import (
    Key,
    RankRequests,
    RunUnit,
    UnitInFlight,
)
from trainfit.estimator.ledger import BlockOperation, Group
from trainfit.estimator.peak import chunk_activations
from trainfit.estimator.placement import Content
from trainfit.estimator.schedule import Turn, chunk_of, microbatch_of, order_of
from trainfit.estimator.tensors import Tensor
from trainfit.estimator.trace.moments import Moment, forward
from trainfit.estimator.trace.recorder import HeldTensor
from trainfit.specs.blocks import Experts, Sublayer

EXCHANGE = "exchange of tokens"
"""The stream of nodes that exchange (get_comm_stream)."""

Item = TypeVar("Item")
Slots = list[Callable[[], None]]
"""What of a chunk runs before the other one's turn, one after the other."""


class ExchangingStretches(ModelStretches):
    """Stretches whose layers are run in parts."""

    def _in_groups(
        self, kind: int, groups_of: Callable[[Sublayer], tuple[Group, ...]]
    ) -> MegatronStretch:
        layer = self.run.model.layer_kinds[kind]
        parts = [(each, groups_of(each)) for each in layer.sublayers]
        whole = super()._in_groups(kind, dict(parts).__getitem__)
        nodes = nodes_of([groups for _, groups in parts])
        shares = any(isinstance(e, Experts) and e.shared_ffn is not None for e in layer.blocks)
        return replace(whole, nodes=self._nodes(parts, nodes, shares=shares))

    def _nodes(
        self, parts: Sequence[tuple[Sublayer, tuple[Group, ...]]], nodes: Nodes, *, shares: bool
    ) -> NodeStretches:
        """The stretches of a layer's nodes; the residual stream ends in the last one."""
        reads = [block_input(groups) or self.stream() for _, groups in parts]
        made, *before = self.stream(), *parts[:-1]
        run: list[Moment] = []
        for (_, groups), read, following in zip(before, reads, reads[1:], strict=False):
            moments = [(read, *moment) for moment in forward(groups)]
            run += [*moments, (*moments[-1][-1:], read, following)]
        back: list[BackwardMoment] = []
        for sublayer, groups in reversed(before):
            back += self.sublayer_backward(sublayer, groups)
            back.append(BackwardMoment(back[-1].moment[-1:], adds=True))
        last, groups = parts[-1]
        if nodes.dispatch is None or nodes.combine is None:
            moments = [(reads[-1], *moment) for moment in forward(groups)]
            behind = [*moments, (*moments[-1][-1:], reads[-1], made)]
            of_behind = [*self.sublayer_backward(last, groups)]
            of_behind.append(BackwardMoment(of_behind[-1].moment[-1:], adds=True))
            first = self._node(nodes.first, run, back, reads[0], reads[-1])
            experts = self._node(nodes.experts, behind, of_behind, reads[-1], made)
            return NodeStretches(first, None, experts, None, shares)
        rest = nodes.first.groups[sum(len(each) for _, each in before) :]
        run += [(reads[-1], *moment) for moment in forward(rest)]
        modules = self.modules((*rest, *nodes.dispatch.groups, *nodes.experts.groups))
        of_rest = [*reversed_steps(rest, modules)]
        of_rest.append(BackwardMoment(of_rest[-1].moment[-1:], adds=True))
        flows = self._node(nodes.first, run, [*of_rest, *back], reads[0], nodes.first.handed)
        dispatch, experts, combine = [
            self._exchange(each, modules) for each in (nodes.dispatch, nodes.experts, nodes.combine)
        ]
        end = combine.forward[-1]
        combine = replace(combine, forward=(*combine.forward, (*end[-2:], made)), made=made)
        return NodeStretches(flows, *_on_stream(dispatch, experts, combine), shares)

    def _node(
        self,
        node: Node,
        run: Iterable[Moment],
        back: Iterable[BackwardMoment],
        read: Tensor,
        made: Tensor | None,
    ) -> MegatronStretch:
        """A node through which the gradient of the residual stream flows."""
        kept = frozenset([e for e in node.saved if self._dropped.isdisjoint(e.dropped_by)])
        flow, added = self.gradient(), self.gradient()
        return MegatronStretch(kept, tuple(run), tuple(back), read, made, flow, flow, added)

    def _exchange(
        self, node: Node, modules: Mapping[str, Sequence[BlockOperation]]
    ) -> MegatronStretch:
        """A node of experts, or one that exchanges: what it is given is there all the time."""
        given = () if node.given is None else (node.given,)
        kept = frozenset([e for e in node.saved if self._dropped.isdisjoint(e.dropped_by)])
        run = tuple([(*moment, *given) for moment in forward(node.groups)])
        back = tuple(reversed_steps(node.groups, modules))
        return MegatronStretch(kept, run, back, node.given, node.handed, node.of_given, None)


def _nodes_of(unit: RunUnit) -> NodeStretches:
    return next(each.nodes for each in unit.stretches if each.nodes is not None)


def _parts(unit: RunUnit) -> list[list[MegatronStretch]]:
    """What of a layer runs forward in each of its slots: before it a projection, behind it a norm,
    if it has these.
    """
    nodes = _nodes_of(unit)
    apart = [each for each in unit.stretches if each.nodes is None]
    before, behind = (apart[:1], apart[1:]) if unit.kind == "mtp" else ([], apart)
    parts = [nodes.first], [nodes.dispatch], [nodes.experts], [nodes.combine]
    first, *others = [[each for each in part if each is not None] for part in parts]
    return [[*before, *first], *others[:-1], [*others[-1], *behind]]


def _parted(units: Sequence[Item], kind_of: Callable[[Item], str]) -> tuple[list[Item], ...]:
    """What stands before the layers, these, and what stands behind them."""
    layers = [each for each in units if kind_of(each) in ("layer", "mtp")]
    before = [each for each in units if kind_of(each) == "embedding"]
    behind = [each for each in units if kind_of(each) in ("final_norm", "head")]
    return before, layers, behind


def _on_stream(
    dispatch: MegatronStretch, experts: MegatronStretch, combine: MegatronStretch
) -> tuple[MegatronStretch, MegatronStretch, MegatronStretch]:
    """The stretches with what the exchanging ones make, forward and backward, on their stream."""
    moved: dict[Tensor, Tensor] = {}
    for each in (dispatch, combine):
        moments = (*each.forward, *[step.moment for step in each.backward])
        for tensor in {tensor for moment in moments for tensor in moment} - {each.read}:
            moved[tensor] = Tensor(
                *(tensor.name, tensor.shape, tensor.width, tensor.dropped_by, tensor.role),
                *(tensor.of, tensor.storages, EXCHANGE),
            )

    def there(tensor: Tensor | None) -> Tensor | None:
        return None if tensor is None else moved.get(tensor, tensor)

    def moment(tensors: Moment) -> Moment:
        return tuple([moved.get(each, each) for each in tensors])

    def once_a_batch(each: MegatronStretch) -> MegatronStretch:
        return replace(
            each,
            kept=frozenset(moment(tuple(each.kept))),
            forward=tuple(map(moment, each.forward)),
            backward=tuple([step._replace(moment=moment(step.moment)) for step in each.backward]),
            read=there(each.read),
            made=there(each.made),
            of_read=there(each.of_read),
        )

    return once_a_batch(dispatch), once_a_batch(experts), once_a_batch(combine)


@dataclass
class Flow:
    """What flows through a chunk: the residual stream, or its gradient. Gradients of heads are
    `waiting`.
    """

    held: HeldTensor | None
    waiting: list[HeldTensor] = field(default_factory=list)


class ExchangingRank(RankRequests):
    """A rank that runs forwards beside backwards."""

    def _highest_turn(self) -> int:
        """Turns up to the highest of a cycle, in the ledger."""
        pipeline, m = self._plan.layout.pipeline, self._plan.batch.num_microbatches
        beside = Combined(self._ledger).of(self._contents)
        chunks = [chunk_activations(self._ledger, each) for each in self._contents]
        act = self._ledger.sizes.act

        def height(turn: Turn) -> int:
            ahead = turn.ordinal + 1
            forward = None if ahead == self._forwards else chunk_of(ahead, pipeline)
            live = turn.live + chunks[turn.forward].saved - chunks[turn.backward].saved
            return live + act * turn.sent + beside(forward, turn.backward).highest.total

        turns = order_of(pipeline, m, self._number).turns([chunk.saved for chunk in chunks])
        return max(2, max(turns, key=height).ordinal - self._ahead + 1)

    def _alternate(self, shown: int, step: str) -> None:
        """Forwards ahead and the first of those in turn run alone, as the last backward does."""
        ahead = self._ahead
        for index in range(ahead + 1):
            self._pair(self._key(index), None, step)
        for turn in range(min(shown, self._forwards - ahead)):
            following = ahead + 1 + turn
            key = self._key(following) if following < self._forwards else None
            number, microbatch = self._key(turn)
            last = self._plan.layout.pipeline.vpp - 1
            self._pair(key, (last - number, microbatch), step)

    def _key(self, index: int) -> Key:
        """The chunk and the micro-batch of a forward; a backward runs the chunks in reverse."""
        pipeline = self._plan.layout.pipeline
        return chunk_of(index, pipeline), microbatch_of(index, pipeline)

    def _run_backward(self, key: Key, step: str) -> None:
        self._pair(None, key, step)

    def _units(self, content: Content) -> Iterator[RunUnit]:
        """The final norm runs with the last layer."""
        units = list(super()._units(content))
        for unit, following in zip_longest(units, units[1:]):
            if unit.kind == "final_norm" and content.kinds:
                continue
            if unit.kind == "layer" and following is not None and following.kind == "final_norm":
                yield unit._replace(stretches=(*unit.stretches, *following.stretches))
            else:
                yield unit

    def _pair(self, ahead: Key | None, behind: Key | None, step: str) -> None:
        back = [] if behind is None else self._backward_slots(behind, step)
        forth = [] if ahead is None else self._forward_slots(ahead, step)
        for run, _ in in_turn(forth, back):
            run()

    def _forward_slots(self, key: Key, step: str) -> Slots:
        number, _ = key
        content, recorder = self._contents[number], self._recorder
        flow, running = Flow(None), list[UnitInFlight]()
        self._running[key] = running
        before, layers, behind = _parted(list(self._units(content)), lambda each: each.kind)
        data = self._ledger.batch_bytes(content)
        masks: list[HeldTensor] = []

        def whole(units: Sequence[RunUnit]) -> None:
            for unit in units:
                recorder.moment = f"{step} {unit.kind}_forward {number}"
                self._before(unit, "")
                here, flow.held = self._unit_forward(unit, flow.held)
                running.append(UnitInFlight(unit, here))

        def begin() -> None:
            flow.held = None if content.embedding else self._receive(key)
            masks.extend([recorder.make(data)] if data else [])
            whole(before)

        def end() -> None:
            whole(behind)
            recorder.release(*masks)
            if flow.held is not None:
                if self._plan.framework.deallocate_pipeline_outputs:
                    recorder.release(flow.held)
                else:
                    self._waiting.setdefault(key, []).append(flow.held)

        def part(place: int, unit: RunUnit, stretches: Sequence[MegatronStretch]) -> None:
            recorder.moment = f"{step} {unit.kind}_forward {number}"
            self._before(unit, f"copies {number} {place}")
            here = running[len(before) + place].here
            for stretch in stretches:
                here.update(self._read(stretch, flow.held))
                recorder.run(self._stretches.forward(stretch), here)
                flow.held = None if stretch.made is None else here.pop(stretch.made)

        def start(place: int, unit: RunUnit, stretches: Sequence[MegatronStretch]) -> None:
            running.append(UnitInFlight(unit, {}))
            part(place, unit, stretches)

        slots: Slots = [begin]
        for place, unit in enumerate(layers):
            first, *others = _parts(unit)
            slots.append(partial(start, place, unit, first))
            slots += [partial(part, place, unit, each) for each in others]
        return [*slots, end]

    def _backward_slots(self, key: Key, step: str) -> Slots:
        number, _ = key
        content, recorder = self._contents[number], self._recorder
        received = None if content.output_layer else recorder.make(self._ledger.sizes.act)
        before, self._received = self._received, received
        if before is not None:
            recorder.release(before)
        flow, running = Flow(received), self._running.pop(key)
        first, layers, last = _parted(running, lambda each: each.unit.kind)

        def whole(units: Sequence[UnitInFlight]) -> None:
            for unit, here in reversed(units):
                recorder.moment = f"{step} {unit.kind}_backward {number}"
                if unit.kind == "head":
                    self._stand("cublas backward", self._standing.cublas)
                elif unit.kind == "final_norm":
                    flow.held = flow.waiting.pop()
                flow.held = self._unit_backward(unit, here, flow.held, received)
                if unit.kind == "head" and flow.held is not None:
                    flow.waiting.insert(1, flow.held)
                    flow.held = None

        def end() -> None:
            whole(first)
            flow.held = self._passed_on(flow.waiting, flow.held)
            recorder.release(*self._waiting.pop(key, ()))
            sent, self._sent = self._sent, None if flow.held is received else flow.held
            if sent is not None:
                recorder.release(sent)

        slots: Slots = [partial(whole, last)]
        for each in reversed(layers):
            moment = f"{step} {each.unit.kind}_backward {number}"
            slots += self._layer_backward(each, flow, received, moment)
        return [*slots, end]

    def _layer_backward(
        self, layer: UnitInFlight, flow: Flow, received: HeldTensor | None, moment: str
    ) -> Slots:
        """The gradient that comes is there until the layer is through, as are those of what its
        nodes branch off.
        """
        recorder, (unit, here), act = self._recorder, layer, self._ledger.sizes.act
        nodes = _nodes_of(unit)
        came: list[HeldTensor] = []
        branches: list[HeldTensor] = []
        on_way: list[HeldTensor | None] = []

        def run(stretch: MegatronStretch, gradient: HeldTensor | None) -> HeldTensor | None:
            recorder.moment = moment
            if gradient is not None and stretch.of_made is not None:
                here[stretch.of_made] = gradient
            new = self._stretches.shapes(stretch) - self._dummies
            self._dummies |= new
            recorder.run(self._stretches.backward(stretch, new, gradient is not None), here)
            if stretch.of_made is not None:
                here.pop(stretch.of_made, None)
            of_read = self._stretches.of_read(stretch, held=gradient is not None)
            return None if of_read is None else here.pop(of_read, None)

        def returned() -> None:
            norm = next((each for each in unit.stretches[1:] if each.nodes is None), None)
            if flow.held is None:
                flow.held = flow.waiting.pop()
            came.append(flow.held)
            given = flow.held if norm is None else run(norm, flow.held)
            if nodes.combine is None:
                on_way.append(given)
                return
            branches.extend([recorder.make(act, stream=EXCHANGE) for _ in range(1 + nodes.shares)])
            on_way.append(run(nodes.combine, None))
            self._let_go(given, came)

        def pass_on(stretch: MegatronStretch | None, *, flows: bool = False) -> None:
            if stretch is None:
                return
            given = on_way.pop()
            on_way.append(run(stretch, given if flows else None))
            self._let_go(given, came)

        def end() -> None:
            given, apart = on_way.pop(), nodes.combine is not None
            gradient = run(nodes.first, branches[0] if apart else given)
            if unit.kind == "mtp":
                run(unit.stretches[0], gradient)
                self._let_go(gradient, [])
                gradient = None
            recorder.release(*branches)
            self._let_go(given, [])
            self._let_go(came[0], [] if received is None else [received])
            flow.held = gradient

        return [
            returned,
            partial(pass_on, nodes.experts, flows=nodes.combine is None),
            partial(pass_on, nodes.dispatch),
            end,
        ]

    def _let_go(self, held: HeldTensor | None, unless: Sequence[HeldTensor]) -> None:
        if held is not None and held not in unless:
            self._recorder.release(held)


class ExchangingRankWithGraphs(RankWithGraphs, ExchangingRank):
    """A rank that does so in one CUDA graph in the end."""
