"""What a rank has where no step runs before its CUDA graphs are captured.

They are captured before the optimizer has made its moments, each part of a layer for every
micro-batch in flight; steps then have only what runs beside them. One graph of a whole step leaves
nothing beside itself. Sources: megatron/training/training.py (create_cudagraphs, at step
cuda_graph_warmup_steps), megatron/core/full_cuda_graph.py.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from typing import NamedTuple

from trainfit.estimator.frameworks.megatron.chunks import MegatronLedger
from trainfit.estimator.frameworks.megatron.layers import captured_operations
from trainfit.estimator.legend import Legend
from trainfit.estimator.peak import ActivationPeak, PlacedSegment
from trainfit.estimator.placement import Content
from trainfit.estimator.results import Peak
from trainfit.estimator.run import MegatronRun
from trainfit.estimator.segment import Segment, Table, add_up, walk

BESIDE_ONE_GRAPH = ActivationPeak(0, 0, 0, Peak("optimizer_step", "optimizer", None, None))
"""What a step has beside one graph of all its forwards and backwards."""


class GraphedPeaks(NamedTuple):
    """The peak of a rank while graphs are `captured`, and of steps `beside` them."""

    captured: ActivationPeak
    beside: ActivationPeak


def captures_at_once(run: MegatronRun) -> bool:
    """Whether graphs are captured before the first step."""
    framework = run.framework
    by = framework.cuda_graph_impl
    return by in ("transformer_engine", "full_iteration") and not framework.cuda_graph_warmup_steps


class PartOfLayers:
    """The stretches of a model that graphs of layers have, or what is beside them."""

    def __init__(
        self,
        ledger: MegatronLedger,
        segments: Callable[[Content], Iterator[PlacedSegment]],
        *,
        captured: bool,
    ) -> None:
        self._ledger, self._segments, self._captured = ledger, segments, captured

    @property
    def sizes(self) -> Legend:
        return self._ledger.sizes

    def segments(self, content: Content) -> Iterator[PlacedSegment]:
        depth, spec = self._ledger.run.model.mtp, self._layers
        for placed in self._segments(content):
            if placed.kind is not None:
                yield placed._replace(segment=spec[placed.kind])
            elif not self._captured:
                yield placed
            elif depth is not None and self._ledger.layer_table(placed) is not None:
                yield placed._replace(segment=spec[depth.layer_kind])

    def sent_bytes(self, content: Content) -> int:
        return 0 if self._captured else self._ledger.sent_bytes(content)

    def received_bytes(self, content: Content) -> int:
        """The gradient [n', h] that a graph reads, or that comes from the next stage."""
        return self.sizes.act if self._captured else self._ledger.received_bytes(content)

    def batch_bytes(self, content: Content) -> int:
        return 0 if self._captured else self._ledger.batch_bytes(content)

    @cached_property
    def _layers(self) -> Sequence[Segment]:
        """Of each kind of layer its part. A graph keeps its output [n', h], and for each
        micro-batch in flight what it reads beside.
        """
        found = []
        for kind, (segment, read) in enumerate(
            zip(self._ledger.layer_segments, self._ledger.graph_inputs, strict=True)
        ):
            table = self._table(kind)
            part = walk(segment.name, table, self.sizes.act)
            if self._captured and any(table):
                part = part._replace(saved=part.saved + self.sizes.act + read)
            found.append(part)
        return found

    def _table(self, kind: int) -> Table:
        ledger = self._ledger
        table: Table = []
        for sublayer in ledger.run.model.layer_kinds[kind].sublayers:
            groups = ledger.sublayer(sublayer)
            graphed = set(map(id, captured_operations(sublayer, groups, ledger.run)))
            mine = [
                tuple([each for each in group if (id(each) in graphed) is self._captured])
                for group in groups
            ]
            table += add_up(tuple(mine), ledger.dropped)
        return table
