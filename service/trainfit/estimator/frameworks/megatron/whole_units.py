"""What Megatron-FSDP has whole on a rank while a stretch of the model runs.

Layers are units: gathered before they run, with others ahead of them, and let go of behind. What is
no layer is gathered once, and stays; asked for again at the head, it brings the first layers along,
which follow it in the order of buckets. Gradients are whole until they are reduced, of which a
number are on their way.

Source: distributed/fsdp/src/megatron_fsdp (megatron_fsdp.py, _register_fsdp_hooks; of
param_and_grad_buffer.py AllGatherPipeline, GradReducePipeline and FixedPoolAllocator).
"""

from collections import deque
from collections.abc import Iterable, Iterator
from itertools import accumulate, pairwise
from typing import NamedTuple

from trainfit.estimator.frameworks.megatron.chunks import MegatronLedger
from trainfit.estimator.frameworks.megatron.states import StateSharding
from trainfit.estimator.local_parameters import Local, ParameterTable
from trainfit.estimator.peak import PlacedSegment
from trainfit.estimator.placement import Content

MOST_REDUCING = 1_000_000_000
"""Elements of gradients that may be on their way to be reduced, or those of two units of the mean
size if these are more (suggested_communication_unit_size): padded for the ranks, two such units are
beyond that. Half as many are gathered ahead."""
DOUBLE = 2
"""Buffers for a parameter group that stay, if there are double ones (UB_BUFFER_NUM)."""


class WholeBytes(NamedTuple):
    """Bytes beside a forward, and beside a backward."""

    forward: int
    backward: int


class WholeUnits:
    """What is whole of the chunks of a rank: all the time, and beside each stretch."""

    def __init__(
        self,
        ledger: MegatronLedger,
        table: ParameterTable,
        trained: ParameterTable,
        sharding: StateSharding,
    ) -> None:
        self._ledger, self._table, self._trained = ledger, table, trained
        states, framework = sharding.each, sharding.framework
        trains_units = ledger.run.step.adapters is None
        self._weight = states.weights if sharding.strategy == "optim_grads_params" else 0
        self._gradient = states.gradients if trains_units else 0
        fused = framework.gradient_accumulation_fusion
        self._apart = states.weights if trains_units and not fused else 0
        self._doubled = framework.fsdp_double_buffer or framework.nccl_ub

    def standing(self, contents: Iterable[Content]) -> int:
        """Bytes that are whole all the time: weights of what is no layer, and double buffers of
        weights and of gradients for layers of the commonest size.
        """
        total = 0
        for content in contents:
            total += self._weight * sum(_no_layers(content, self._table))
            for each, table in ((self._weight, self._table), (self._gradient, self._trained)):
                total += DOUBLE * each * self._pooled(_layers(content, table))
        return total

    def segments(self, content: Content) -> Iterator[PlacedSegment]:
        """The stretches of a chunk, each with what is whole beside it. The gradient of the head
        follows the one that is not added up within its product.
        """
        embedding, head = _no_layers(content, self._trained)
        layers, trained = _layers(content, self._table), _layers(content, self._trained)
        first = 0 if self._doubled else _until(layers, self._ahead(layers))
        beside = self._beside_groups(layers, trained, content)
        heads = iter(self._ledger.heads(self._gradient * head * (not self._apart)))
        reduced = min(sum(trained), self._most(layers)) * (not self._doubled)
        for placed in self._ledger.segments(content):
            name = placed.segment.name
            if name in ("dense", "moe", "mtp"):
                whole = next(beside)
            elif name == "embedding":
                whole = WholeBytes(self._weight * first, self._gradient * (reduced + embedding))
            else:
                made = self._gradient * head * (name == "final_norm")
                whole = WholeBytes(self._weight * first, self._weight * first + made)
            if name == "head":
                placed = placed._replace(segment=next(heads))
            yield placed._replace(beside=whole.forward, behind=whole.backward)

    def _groups(self, content: Content) -> Iterator[range]:
        """The layers of each stretch that is made of some: several that are recomputed as one."""
        made = [
            placed.layer for placed in self._ledger.segments(content) if placed.layer is not None
        ]
        yield from (range(before + 1, last + 1) for before, last in pairwise([-1, *made]))
        first = len(content.kinds)
        yield from (range(first + each, first + each + 1) for each in range(content.mtp_layers))

    def _pooled(self, layers: list[int]) -> int:
        """Elements of the layers that have double buffers."""
        return max(layers, key=layers.count, default=0) if self._doubled else 0

    def _most(self, layers: list[int]) -> int:
        return max(MOST_REDUCING, 2 * sum(layers) // max(1, len(layers)))

    def _ahead(self, layers: list[int]) -> int:
        return self._most(layers) // 2

    def _beside_groups(
        self, layers: list[int], trained: list[int], content: Content
    ) -> Iterator[WholeBytes]:
        """What is whole beside the groups of layers, in forward order. The gradient of an embedding
        that is the head as well waits in its own type until it is complete.
        """
        embedding, head = _no_layers(content, self._trained)
        tied = content.output_layer and not _no_layers(content, self._table)[1]
        waiting = (self._apart or self._gradient) * embedding * tied
        pooled, ahead, most = self._pooled(layers), self._ahead(layers), self._most(layers)
        reducing = deque([head])
        found: list[WholeBytes] = []
        for group in reversed(list(self._groups(content))):
            own = [layers[each] for each in group]
            made = [trained[each] for each in reversed(group)]
            if self._doubled:
                forward = backward = 2 * sum([each for each in own if each != pooled])
                reduced = head + sum([trained[each] for each in group if layers[each] != pooled])
            else:
                while sum(reducing) >= most:
                    reducing.popleft()
                reducing += made
                forward = max(
                    [layers[each] + _until(layers[each + 1 :], ahead) for each in group], default=0
                )
                backward = sum(own) + _until(layers[: group.start][::-1], ahead)
                reduced = sum(reducing)
            gradients = self._gradient * reduced + waiting
            found.append(WholeBytes(self._weight * forward, self._weight * backward + gradients))
        return reversed(found)


def _no_layers(content: Content, table: ParameterTable) -> tuple[int, int]:
    """Elements of the embedding, and of a head of its own."""
    chunk = table.chunk(content)
    return chunk.embedding, chunk.output_layer


def _layers(content: Content, table: ParameterTable) -> list[int]:
    """Elements of every layer in forward order."""
    layers = [_elements(table.kind(kind)) for kind in content.kinds]
    return [*layers, *[_elements(table.depth)] * content.mtp_layers]


def _until(layers: list[int], most: int) -> int:
    """Elements of the layers in turn, up to the one with which they are so many."""
    return next((total for total in accumulate(layers) if total >= most), sum(layers))


def _elements(local: Local) -> int:
    return local.dense + local.expert
