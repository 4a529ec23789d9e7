"""Seconds of chunks and pipeline ranks for one micro-batch: their stretches, added up."""

from collections import Counter
from collections.abc import Iterable
from functools import reduce
from itertools import chain
from typing import NamedTuple

from trainfit.estimator.frameworks.framework import Ledger
from trainfit.estimator.ledger import BlockOperation
from trainfit.estimator.placement import Content
from trainfit.specs.architecture import ModelSpec
from trainfit.steptime.bubbles import PassSeconds
from trainfit.steptime.stretches import NOTHING, Cost, StretchCost, Timer

RESIDUAL_PASSES = 3
"""Times that a residual addition reads or writes [n', h], either way."""


class StageCost(NamedTuple):
    """One micro-batch through the chunks of a rank: its passes, what they are made of, the
    arithmetic of the model in them, the bytes that are fetched from host memory.
    """

    passes: PassSeconds = PassSeconds(0.0, 0.0, 0.0)
    cost: Cost = NOTHING
    waits: float = 0.0
    flops: float = 0.0
    fetched: int = 0

    def plus(self, other: "StageCost") -> "StageCost":
        return StageCost(
            PassSeconds(*[a + b for a, b in zip(self.passes, other.passes, strict=True)]),
            self.cost.plus(other.cost),
            self.waits + other.waits,
            self.flops + other.flops,
            self.fetched + other.fetched,
        )

    def times(self, count: int) -> "StageCost":
        return StageCost(
            PassSeconds(*[count * each for each in self.passes]),
            Cost(*[count * each for each in self.cost]),
            count * self.waits,
            count * self.flops,
            count * self.fetched,
        )


class Stages:
    """Times the chunks of a model from its ledger. Each stretch is timed once."""

    def __init__(self, ledger: Ledger, model: ModelSpec, mtp_layers: int, timer: Timer) -> None:
        self._ledger, self._model, self._timer = ledger, model, timer
        self._mtp_layers = mtp_layers
        self._layers: dict[tuple[int, bool], StageCost] = {}
        self._chunks: dict[Content, StageCost] = {}
        self._ranks: dict[tuple[Content, ...], StageCost] = {}
        self._residual = RESIDUAL_PASSES * ledger.sizes.act
        self._embedding = self._stage(ledger.embedding())
        self._final_norm = self._stage(ledger.final_norm())
        self._head = self._stage(ledger.head())
        self._mtp = self._multi_token_prediction()

    def of(self, contents: tuple[Content, ...]) -> StageCost:
        """All chunks of a rank."""
        if contents not in self._ranks:
            self._ranks[contents] = reduce(StageCost.plus, map(self._chunk, contents))
        return self._ranks[contents]

    def _chunk(self, content: Content) -> StageCost:
        if content not in self._chunks:
            self._chunks[content] = self._added_up(content)
        return self._chunks[content]

    def _added_up(self, content: Content) -> StageCost:
        ledger, whole = self._ledger, StageCost()
        layers = Counter(
            [(kind, ledger.is_recomputed(place, kind)) for place, kind in enumerate(content.kinds)]
        )
        for (kind, again), count in layers.items():
            whole = whole.plus(self._layer(kind, again).times(count))
        if content.embedding:
            whole = whole.plus(self._embedding)
        if content.final_norm:
            whole = whole.plus(self._final_norm)
        if content.output_layer:
            whole = whole.plus(self._head.times(1 + self._mtp_layers))
        return whole.plus(self._mtp.times(content.mtp_layers)) if content.mtp_layers else whole

    def _layer(self, kind: int, again: bool) -> StageCost:
        if (kind, again) not in self._layers:
            sublayers = self._model.layer_kinds[kind].sublayers
            own = [self._ledger.sublayer(each) for each in sublayers]
            graphed = chain.from_iterable(map(self._ledger.graphed, sublayers, own))
            self._layers[kind, again] = self._stage(
                tuple(chain.from_iterable(own)),
                again=again,
                residual=len(sublayers) * self._residual,
                graphed=graphed,
            )
        return self._layers[kind, again]

    def _multi_token_prediction(self) -> StageCost:
        if not self._mtp_layers:
            return StageCost()
        again = self._ledger.recomputes_mtp
        return self._stage(self._ledger.mtp(), again=again, residual=2 * self._residual)

    def _stage(
        self,
        groups: tuple[tuple[BlockOperation, ...], ...],
        *,
        again: bool = False,
        residual: int = 0,
        graphed: Iterable[BlockOperation] = (),
    ) -> StageCost:
        """A stretch, of which all that its ledger says runs `again`, and CUDA graphs launch what is
        `graphed`.
        """
        rerun = self._ledger.rerun(groups) if again else ()
        stretch = self._timer.stretch(groups, residual, self._ledger.dropped, rerun, graphed)
        return _as_stage(stretch)


def _as_stage(stretch: StretchCost) -> StageCost:
    """What is run again waits for the host by itself."""
    forward, backward, again = stretch.forward, stretch.backward, stretch.again
    return StageCost(
        PassSeconds(forward.total, backward.total + again.total, stretch.weights),
        forward.plus(backward).plus(again),
        forward.waits + backward.waits + again.waits,
        stretch.flops,
        stretch.fetched,
    )
