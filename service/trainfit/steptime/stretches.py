"""Seconds of a stretch of the model for one micro-batch on one GPU: a layer, the embedding, the
head. They are those of its operations, which the ledger has.
"""

from collections.abc import Container, Iterable, Sequence
from functools import lru_cache
from typing import NamedTuple

from trainfit.catalog.speed import Stack
from trainfit.estimator.demands import AttentionDemand, Collective, Demand, Product
from trainfit.estimator.frameworks.framework import Execution
from trainfit.estimator.ledger import BlockOperation, Group
from trainfit.estimator.tensors import Tensor
from trainfit.resolve.megatron.plan import OFFLOADED
from trainfit.specs.speed import MeasuredProduct
from trainfit.steptime.kernels import (
    BACKWARD_OF_ATTENTION,
    attention_flops,
    attention_seconds,
    model_flops,
    product_seconds,
    rates,
)
from trainfit.steptime.links import Links

COLLECTIVES_LAUNCH = 1.4
"""Host time of a layer whose collectives are launched on a stream of their own, to one without:
fitted to half of the published runs."""
EXPERT_LAUNCHES = 0.15
"""What one more product of a grouped linear takes the host, to a whole operation, which launches
several kernels. Assumed: one launch in some seven."""
MAX_TIMED = 4096
"""Demands whose time is remembered: layers of a model have most of theirs in common, and so have
layouts that recompute other modules.
"""


class Cost(NamedTuple):
    """Seconds of one direction: kernels, and exchanges as far as nothing hides them; those in which
    the host launches beside them, and those in which it launches while the GPU waits.
    """

    compute: float = 0.0
    tensor: float = 0.0
    context: float = 0.0
    expert: float = 0.0
    launches: float = 0.0
    blocked: float = 0.0

    def plus(self, other: "Cost") -> "Cost":
        a, b = self, other
        return Cost(a[0] + b[0], a[1] + b[1], a[2] + b[2], a[3] + b[3], a[4] + b[4], a[5] + b[5])

    def launched(self, pace: float) -> "Cost":
        """As where the host takes so many times as long to launch beside it."""
        return self if pace == 1 else self._replace(launches=pace * self.launches)

    @property
    def busy(self) -> float:
        """Seconds of the GPU, however long the host takes beside it."""
        return self.compute + self.tensor + self.context + self.expert + self.blocked

    @property
    def waits(self) -> float:
        """Seconds in which the GPU waits for the host."""
        return self.blocked + max(0.0, self.launches - self.busy)

    @property
    def total(self) -> float:
        return max(self.launches, self.busy)


NOTHING = Cost()


def added_up(costs: Sequence[Cost]) -> Cost:
    """The seconds of all of them, each kind by itself."""
    return Cost(*map(sum, zip(*costs, strict=True))) if costs else NOTHING


class StretchCost(NamedTuple):
    """Forward, backward, and what of forward runs again within backward where modules are
    recomputed. Of backward the seconds of weights' gradients; the arithmetic of the model in it;
    the bytes that are fetched from host memory.
    """

    forward: Cost
    backward: Cost
    again: Cost
    weights: float
    flops: float
    fetched: int


class Timed(NamedTuple):
    """An operation forward and backward, of the latter the gradients of weights, and the arithmetic
    of the model in both; whether it `computes`, or only moves memory.
    """

    forward: Cost
    backward: Cost
    weights: float
    flops: float
    computes: bool


class Timer:
    """Times operations on a GPU, under a stack, over links, as the plan has them run."""

    def __init__(
        self,
        stack: Stack,
        links: Links,
        execution: Execution,
        products: tuple[MeasuredProduct, ...] = (),
    ) -> None:
        self._rates = rates(links.gpu, stack, execution, products, links.cluster.products)
        self._links = links
        self._ep = links.groups["ep"].size
        self._launch = 0.0 if execution.replays else stack.host_seconds
        self._blocks = stack.blocks_launches
        self._each_expert = EXPERT_LAUNCHES if execution.launches_experts else 0.0
        more = COLLECTIVES_LAUNCH if links.groups["tp"].size > 1 else 1.0
        self._launch *= more
        apart = max(more, stack.pieces_host_ratio) if execution.overlaps_experts else more
        waits = 1.0 if execution.knows_rows else stack.expert_host_seconds / stack.host_seconds
        self._pace_of_experts = apart / more * waits
        self._demanded = lru_cache(maxsize=MAX_TIMED)(self._timed)
        overlaps = execution.overlaps_experts
        in_parts = execution.overlaps_tensors
        self._shown = {
            "tp": 1 - (stack.tensor_overlapped if in_parts else stack.tensor_hidden),
            "etp": 1 - stack.tensor_hidden,
            "ep": 1 - (stack.expert_overlapped if overlaps else stack.expert_hidden),
        }

    def stretch(
        self,
        groups: Iterable[Group],
        residual: int,
        dropped: frozenset[str],
        rerun: Container[BlockOperation] = (),
        graphed: Iterable[BlockOperation] = (),
    ) -> StretchCost:
        """All operations of a stretch, of which those in `dropped` modules or `rerun` ones run
        again, and what is read and written of the residual stream, so many bytes. CUDA graphs
        launch `graphed` ones, each at once what a layer has of them.
        """
        offloaded = frozenset([name for name in dropped if name.startswith(OFFLOADED)])
        moved = Cost(compute=residual / self._rates.memory)
        operations = [operation for group in groups for operation in group]
        timed = [self._operation(operation) for operation in operations]
        if by_graphs := frozenset(map(id, graphed)):
            timed = [
                _unlaunched(each) if id(operation) in by_graphs else each
                for operation, each in zip(operations, timed, strict=True)
            ]
        pace = self._pace_of_experts if any(map(_of_experts, operations)) else 1.0
        again = [
            each.forward
            for operation, each in zip(operations, timed, strict=True)
            if operation in rerun or not dropped.isdisjoint(operation.again)
        ]
        return StretchCost(
            added_up([*[each.forward for each in timed], moved]).launched(pace),
            added_up([*[each.backward for each in timed], moved]).launched(pace),
            added_up(again).launched(pace),
            sum([each.weights for each in timed], 0.0),
            sum([each.flops for each in timed], 0.0),
            sum([_fetched(each, offloaded) for each in operations]) if offloaded else 0,
        )

    def _operation(self, operation: BlockOperation) -> Timed:
        """By what it demands, or the bytes that it moves."""
        timed = self._demanded(operation.demands)
        if timed.computes:
            return timed
        memory, (ahead, behind) = self._rates.memory, _moved(operation)
        forward, backward = (
            Cost(ahead / memory, *timed[0][1:]),
            Cost(behind / memory, *timed[1][1:]),
        )
        return Timed(forward, backward, 0.0, 0.0, computes=False)

    def _timed(self, demands: tuple[Demand, ...]) -> Timed:
        """The work for arithmetic and links. The host may launch the products of experts one by
        one.
        """
        compute = compute_back = attention = attention_back = weights = useful = 0.0
        tensor = [0.0, 0.0]
        expert = [0.0, 0.0]
        context = [0.0, 0.0]
        computes, launches = False, 1.0
        for demand in demands:
            match demand:
                case Product():
                    one, of_input, of_weight = product_seconds(demand, self._rates, self._ep)
                    compute += one
                    of_weight *= demand.gradients - 1
                    compute_back += of_input + of_weight
                    weights += of_weight
                    launches += self._each_expert * (demand.experts // self._ep)
                    useful += model_flops(demand)
                    computes = True
                case AttentionDemand():
                    attention = attention_seconds(demand, self._rates)
                    attention_back = BACKWARD_OF_ATTENTION * attention
                    useful += attention_flops(demand)
                    computes = True
                case Collective():
                    ahead, behind = self._links.exchange(demand)
                    if demand.group == "cp":
                        hides = demand.pattern == "ring"
                        context[0] += max(0.0, ahead - attention) if hides else ahead
                        context[1] += max(0.0, behind - attention_back) if hides else behind
                    else:
                        into = expert if demand.group == "ep" else tensor
                        into[0] += ahead * self._shown[demand.group]
                        into[1] += behind * self._shown[demand.group]
        launch = launches * self._launch
        host = (0.0, launch) if self._blocks else (launch, 0.0)
        return Timed(
            Cost(compute + attention, tensor[0], context[0], expert[0], *host),
            Cost(compute_back + attention_back, tensor[1], context[1], expert[1], *host),
            weights,
            useful,
            computes,
        )


def _of_experts(operation: BlockOperation) -> bool:
    return any(isinstance(each, Product) and each.experts for each in operation.demands)


def _unlaunched(timed: Timed) -> Timed:
    """Without the host's part."""
    forward, backward = (each._replace(launches=0.0, blocked=0.0) for each in timed[:2])
    return timed._replace(forward=forward, backward=backward)


def _moved(operation: BlockOperation) -> tuple[int, int]:
    """Bytes that an operation reads and writes: every tensor that it touches, once."""
    reads, output = operation.reads, operation.output
    made = (*operation.makes, *([output] if output is not None else []))
    forward = (*reads, *made, *(each for moment in operation.forward.timeline for each in moment))
    backward = (*reads, *(each for moment in operation.backward.timeline for each in moment))
    return _bytes(forward), _bytes(backward)


def _fetched(operation: BlockOperation, offloaded: frozenset[str]) -> int:
    """Bytes that it saved, and that are on the host meanwhile."""
    return sum([row.bytes for row in operation.tensors if not offloaded.isdisjoint(row.dropped_by)])


def _bytes(tensors: Iterable[Tensor]) -> int:
    return sum([each.bytes for each in dict.fromkeys(tensors)])
